//! The policies that limit callers rather than what they call: known consumers, and everyone else by address.

use tollway::Config;
use tollway_config::Section;

/// The policy of requests without credentials, counted by address.
pub const ANONYMOUS_POLICY: &str = "anonymous";

/// The policy of consumers. It is built from their records, so a config cannot define it.
pub const CONSUMERS_POLICY: &str = "consumers";

/// Reports a concurrency limit in the anonymous policy. Every crate whose config section admits anonymous callers calls
/// this.
pub fn check_anonymous_policy(root: &Section<'_>, limits: &Config) {
    let named = root.names("policies").into_iter().find(|name| *name.get_ref() == ANONYMOUS_POLICY);
    let holds_slots = limits.policy(ANONYMOUS_POLICY).is_some_and(|policy| policy.holds_slots());
    if let Some(name) = named.filter(|_| holds_slots) {
        let message = "callers without credentials cannot have a concurrency limit: they do not report when a call ends";
        let advice = "limit them by time, as in `limits = [\"1000 requests / hour\"]`";
        root.report().problem(name.span(), message, advice);
    }
}
