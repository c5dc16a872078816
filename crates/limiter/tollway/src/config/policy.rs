//! `[policies.NAME]`: a policy out of its section.

use std::num::NonZeroU64;
use std::sync::Arc;

use tollway_config::{DeValue, Section, Spanned};
use tollway_core::bounds::{WAIT_DEFAULT, WAIT_MAX};
use tollway_core::{
    ClusterSlot, ClusterSlotError, Lease, LocalShare, LocalShareError, Name, NameError, Policy, Span,
};

use super::limits;
use crate::source::{
    PolicySource, SOURCE_EVERY_DEFAULT, SOURCE_EVERY_MAX, SOURCE_EVERY_MIN, SourceUrl, SourceUrlError,
};

const LEASE: [(&str, Lease); 3] = [("off", Lease::Off), ("on", Lease::On), ("auto", Lease::Auto)];

/// The policy and its source, unless something is wrong with it; that is in the report then.
pub(super) fn read(
    name: &Spanned<&str>,
    mut section: Section<'_>,
) -> Option<(Arc<Policy>, Option<PolicySource>)> {
    let named = read_name(name, &section);
    let limits = limits::read(&mut section);
    let max_wait = read_max_wait(&mut section);
    let edge = section.span("edge", "250ms");
    let shadow = section.bool("shadow");
    let when_store_fails = section.when_store_fails();
    let lease = section.choice("lease", &LEASE);
    let local_share = read_local_share(&mut section);
    let subjects_max = read_subjects_max(&mut section);
    let source = read_source(&mut section);
    let cluster_slot = read_slot(&mut section);

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
        .with_lease(lease.unwrap_or_default())
        .with_subjects_max(subjects_max)
        .with_cluster_slot(cluster_slot.unwrap_or_default());
    let source = source.map(|(url, every)| PolicySource { policy: policy.name().clone(), url, every });
    Some((Arc::new(policy), source))
}

fn read_name(name: &Spanned<&str>, section: &Section<'_>) -> Option<Name> {
    let advice = "a policy's name is made of letters, digits, `_`, `-` and `.`";
    let wrong = |error: NameError| section.report().problem(name.span(), error.to_string(), advice);
    Name::new(name.get_ref()).map_err(wrong).ok()
}

/// Checked here, because the position of the value is known here.
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
    let text = section.string("local_share", "auto")?;
    text.get_ref()
        .parse()
        .map_err(|error: LocalShareError| section.problem("local_share", error.to_string(), ""))
        .ok()
}

fn read_subjects_max(section: &mut Section<'_>) -> Option<NonZeroU64> {
    let most = match section.value("subjects_max")?.get_ref() {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    let most = most.and_then(NonZeroU64::new);
    if most.is_none() {
        let message = "`subjects_max` must be a whole number, at least 1";
        section.problem(
            "subjects_max",
            message,
            "write it like `subjects_max = 100000`, or leave it out for no bound",
        );
    }
    most
}

/// Where a Cluster keeps the policy's accounts.
fn read_slot(section: &mut Section<'_>) -> Option<ClusterSlot> {
    let text = section.string("slot", "checkout")?;
    text.get_ref()
        .parse()
        .map_err(|error: ClusterSlotError| section.problem("slot", error.to_string(), ""))
        .ok()
}

/// Where the amounts are kept, and how often they are read.
fn read_source(section: &mut Section<'_>) -> Option<(SourceUrl, Span)> {
    let url = section.string("source", "ssm:/pdf-processing/adobe-api-rpm");
    let every = read_source_every(section);
    if url.is_none() && section.has("source_every") && !section.has("source") {
        section.problem("source_every", "there is no `source` to be read", "name one, or leave this out");
    }
    let wrong = |error: SourceUrlError| section.problem("source", error.to_string(), "");
    let url = url?.get_ref().parse().map_err(wrong).ok()?;
    Some((url, every?))
}

fn read_source_every(section: &mut Section<'_>) -> Option<Span> {
    if !section.has("source_every") {
        // Known all the same, so that it can be suggested.
        section.value("source_every");
        return Some(SOURCE_EVERY_DEFAULT);
    }
    let every = section.span("source_every", "5m")?;
    if (SOURCE_EVERY_MIN..=SOURCE_EVERY_MAX).contains(&every) {
        return Some(every);
    }
    let message =
        format!("a source is read every {SOURCE_EVERY_MIN} to {SOURCE_EVERY_MAX}, not every {every}");
    section.problem("source_every", message, "");
    None
}
