//! Subjects that end like one that has no usage. A server names subjects after the header that they come from, as in
//! `x-tenant:acme`, and an operator asks for `acme`.

use tollway::core::bounds::ACCOUNTS_LISTED_MAX;
use tollway::{Limiter, Name};

/// How many are named: enough to choose from.
const NAMED_MAX: usize = 5;

/// The subjects of a policy that end like this one, sorted; the store is asked for a bounded number of accounts. None if it
/// cannot list them.
pub(crate) fn find(limiter: &Limiter, policy: &str, subject: &str) -> Vec<String> {
    let Ok(policy) = Name::new(policy) else { return Vec::new() };
    let listed = limiter.accounts(Some(&policy), ACCOUNTS_LISTED_MAX).now();
    let Ok(Some(listed)) = listed else { return Vec::new() };
    let subjects = listed.keys.iter().map(|key| key.subject.as_str());
    let mut similar: Vec<String> =
        subjects.filter(|known| end_alike(known, subject)).map(str::to_owned).collect();
    similar.sort_unstable();
    similar.truncate(NAMED_MAX);
    similar
}

/// Whether one of two different subjects is the other behind a prefix, without regard to case.
fn end_alike(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    is_with_prefix(&one, &other) || is_with_prefix(&other, &one)
}

fn is_with_prefix(long: &str, short: &str) -> bool {
    let prefix = long.strip_suffix(short).filter(|_| !short.is_empty());
    prefix.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with(|last: char| !last.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_with_a_separator() {
        assert!(end_alike("x-tenant:acme", "acme"));
        assert!(end_alike("acme", "x-tenant:acme"));
        assert!(end_alike("edge|tenant=Acme", "acme"));
        for (one, other) in [("macme", "acme"), ("acme2", "acme"), ("acme", ""), ("x:acme:1", "acme")] {
            assert!(!end_alike(one, other), "{one} {other}");
        }
    }
}
