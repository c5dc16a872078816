//! The policy of an api: the one it names, or one that is made of its own limits.

use std::sync::Arc;

use tollway_config::{Report, Spanned};
use tollway_core::Policy;

use super::Api;

/// Adds the policies of apis that have none in the file, and `concurrency` to those that have one.
pub(in crate::config) fn attach<'a>(
    apis: &[(Spanned<&'a str>, Arc<Api>)],
    policies: &mut Vec<(Spanned<&'a str>, Arc<Policy>)>,
    report: &Report<'_>,
) {
    for (name, api) in apis {
        let Some(policy) = api.policy() else { continue };
        match policies.iter_mut().find(|(_, known)| known.name() == policy) {
            Some((_, known)) => add_concurrency(name, api, known, report),
            // A policy with a mistake in it is not there; the mistake was reported.
            None if policy == api.name() => policies.extend(own(name, api)),
            None => {}
        }
    }
}

fn own<'a>(name: &Spanned<&'a str>, api: &Api) -> Option<(Spanned<&'a str>, Arc<Policy>)> {
    Some((Spanned::new(name.span(), *name.get_ref()), Arc::new(api.own_policy()?)))
}

fn add_concurrency(name: &Spanned<&str>, api: &Api, policy: &mut Arc<Policy>, report: &Report<'_>) {
    let Some(limit) = api.concurrency_limit() else { return };
    if policy.holds_slots() {
        let message = format!(
            "`concurrency` of [apis.{}], but policy {} counts calls in flight, too",
            api.name(),
            policy.name()
        );
        report.problem(name.span(), message, "leave one of them out");
        return;
    }
    let limits = policy.limits().iter().cloned().chain([limit]).collect();
    match policy.with_limits(limits) {
        Ok(with_limit) => *policy = Arc::new(with_limit),
        Err(error) => {
            let message = format!("`concurrency` of [apis.{}] does not fit its policy: {error}", api.name());
            report.problem(name.span(), message, "write the limit into the policy: \"8 concurrent\"");
        }
    }
}
