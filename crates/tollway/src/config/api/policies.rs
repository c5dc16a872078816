//! The policies of an api: the one it names, or one that is made of its own limits; its rate as a limit of that; and one that
//! counts its calls in flight.

use std::sync::Arc;

use tollway_config::{Report, Spanned};
use tollway_core::{Lease, Name, Policy};

use super::Api;

/// Adds the policies of apis that have none in the file, and `rate` to those that have one.
pub(in crate::config) fn attach<'a>(
    apis: &[(Spanned<&'a str>, Arc<Api>)],
    policies: &mut Vec<(Spanned<&'a str>, Arc<Policy>)>,
    report: &Report<'_>,
) {
    for (name, api) in apis {
        let here = |policy: Policy| (Spanned::new(name.span(), *name.get_ref()), Arc::new(policy));
        let slots = api.slots_policy().filter(|slots| !has(policies, slots.name()));
        policies.extend(slots.map(here));
        let Some(policy) = api.policy() else { continue };
        match policies.iter_mut().find(|(_, known)| known.name() == policy) {
            Some((_, known)) => match with_rate(api, known) {
                Ok(with_rate) => *known = Arc::new(with_rate),
                Err((message, advice)) => report.problem(name.span(), message, advice),
            },
            // A policy with a mistake in it is not there; the mistake was reported.
            None if policy == api.name() => policies.extend(api.own_policy().map(here)),
            None => {}
        }
    }
}

fn has(policies: &[(Spanned<&str>, Arc<Policy>)], name: &Name) -> bool {
    policies.iter().any(|(_, policy)| policy.name() == name)
}

/// A policy with the rate of its api; or what is wrong, and what to do about it.
fn with_rate(api: &Api, policy: &Policy) -> Result<Policy, (String, &'static str)> {
    let (name, of) = (policy.name(), api.name());
    if policy.lease() == Lease::On {
        let message = format!(
            "policy {name} has leases, and is that of [apis.{of}]: a vendor's hold would not reach what is leased"
        );
        return Err((message, "leave out `lease`"));
    }
    if api.concurrency().is_some() && policy.holds_slots() {
        let message = format!("`concurrency` of [apis.{of}], but policy {name} counts calls in flight, too");
        return Err((message, "leave one of them out"));
    }
    let policy = policy.clone().with_lease(Lease::Off);
    let Some(rate) = api.rate_limit() else { return Ok(policy) };
    let limits = policy.limits().iter().filter(|limit| **limit != rate).cloned().chain([rate.clone()]);
    policy.with_limits(limits.collect()).map_err(|error| {
        let message = format!("`rate` of [apis.{of}] does not fit its policy: {error}");
        (message, "give the other limit another name; one policy is for one api")
    })
}
