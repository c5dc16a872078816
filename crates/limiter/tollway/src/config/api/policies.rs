//! The policies of an api: the one it names, or one that is made of its own limits; its rate as a limit of that; and one that
//! counts its calls in flight.

use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

use tollway_config::{ProblemReport, Spanned};
use tollway_core::{Lease, Name, Policy};

use super::Api;

/// A policy with the place of its name in the file.
type Placed<'a> = (Spanned<&'a str>, Arc<Policy>);

/// Adds the policies of apis that have none in the file, and `rate` to those that have one.
pub(in crate::config) fn attach<'a>(
    apis: &[(Spanned<&'a str>, Arc<Api>)],
    policies: &mut Vec<Placed<'a>>,
    report: &ProblemReport<'_>,
) {
    let known = policies.iter().enumerate().map(|(index, (_, policy))| (policy.name().clone(), index));
    let mut index_of: HashMap<Name, usize> = known.collect();
    for (name, api) in apis {
        let known = api.policy().and_then(|policy| policies.get_mut(*index_of.get(policy)?));
        if let Some((_, known)) = known {
            match with_rate(api, known) {
                Ok(with_rate) => *known = Arc::new(with_rate),
                Err((message, advice)) => report.problem(name.span(), message, advice),
            }
        }
        // A policy with a mistake in it is not there; the mistake was reported.
        let own = api.own_policy().filter(|own| api.policy() == Some(own.name()));
        for policy in api.slots_policy().into_iter().chain(own) {
            if let Entry::Vacant(free) = index_of.entry(policy.name().clone()) {
                free.insert(policies.len());
                policies.push((Spanned::new(name.span(), *name.get_ref()), Arc::new(policy)));
            }
        }
    }
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
