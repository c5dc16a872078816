//! `[policies.NAME]`: a policy out of its section.

use std::sync::Arc;

use tollway_core::bounds::{WAIT_DEFAULT, WAIT_MAX};
use tollway_core::{Lease, LocalShare, LocalShareError, Name, NameError, Policy, Span, WhenStoreFails};
use toml::Spanned;

use super::limits;
use super::section::Section;

const WHEN_STORE_FAILS: [(&str, WhenStoreFails); 3] =
    [("local", WhenStoreFails::Local), ("open", WhenStoreFails::Open), ("closed", WhenStoreFails::Closed)];

const LEASE: [(&str, Lease); 3] = [("off", Lease::Off), ("on", Lease::On), ("auto", Lease::Auto)];

/// The policy, unless something is wrong with it; that is in the report then.
pub(super) fn read(name: &Spanned<&str>, mut section: Section<'_>) -> Option<Arc<Policy>> {
    let named = read_name(name, &section);
    let limits = limits::read(&mut section);
    let max_wait = read_max_wait(&mut section);
    let edge = section.span("edge", "250ms");
    let shadow = section.bool("shadow");
    let when_store_fails = section.choice("when_store_fails", &WHEN_STORE_FAILS);
    let lease = section.choice("lease", &LEASE);
    let local_share = read_local_share(&mut section);
    for key in ["source", "slot"] {
        section.not_yet(key);
    }

    let policy = named.zip(limits).and_then(|(name, limits)| {
        let policy = Policy::of_limits(name, limits);
        let policy = policy.and_then(|policy| policy.with_max_wait(max_wait.unwrap_or(WAIT_DEFAULT)));
        policy.map_err(|error| section.problem("limits", error.to_string(), "")).ok()
    });
    section.finish();
    let policy = policy?
        .with_edge(edge.unwrap_or_default())
        .with_shadow(shadow.unwrap_or_default())
        .with_when_store_fails(when_store_fails.unwrap_or_default())
        .with_local_share(local_share.unwrap_or_default())
        .with_lease(lease.unwrap_or_default());
    Some(Arc::new(policy))
}

fn read_name(name: &Spanned<&str>, section: &Section<'_>) -> Option<Name> {
    let advice = "a policy's name is made of letters, digits, `_`, `-` and `.`";
    let wrong = |error: NameError| section.report().problem(name.span(), error.to_string(), advice);
    Name::new(name.get_ref()).map_err(wrong).ok()
}

/// Checked here, where the place of the value is known.
fn read_max_wait(section: &mut Section<'_>) -> Option<Span> {
    let max_wait = section.span("max_wait", "10m")?;
    if max_wait > WAIT_MAX {
        let message = format!("a wait of {max_wait} is more than the {WAIT_MAX} allowed");
        section.problem("max_wait", message, "");
        return None;
    }
    Some(max_wait)
}

fn read_local_share(section: &mut Section<'_>) -> Option<LocalShare> {
    let text = section.string("local_share", "1/10")?;
    text.get_ref()
        .parse()
        .map_err(|error: LocalShareError| section.problem("local_share", error.to_string(), ""))
        .ok()
}
