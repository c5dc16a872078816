//! Compares two configs: which limits keep their usage, and which are reset.

use std::path::Path;

use serde::Serialize;
use tollway::core::Calendar;
use tollway::{Config, Limit, Policy, StoreUrl};

use crate::failure::Failure;
use crate::humanize::{count, span};
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, WARN};

/// The changes of all limits.
#[derive(Serialize)]
pub(super) struct Changes {
    file: String,
    /// Set if the store changed: usage is not carried over.
    store_changed: Option<String>,
    limits: Vec<Change>,
}

/// The change of one limit.
#[derive(Serialize)]
struct Change {
    address: String,
    verdict: Effect,
    /// What changed, if anything.
    what: Option<String>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Effect {
    Unchanged,
    KeepsCounting,
    StartsAnew,
    New,
    Gone,
}

/// Compares `old` with `new`. Policies are sorted by name, limits as in the file.
pub(super) fn compare(path: &Path, old: &Config, new: &Config) -> Changes {
    let mut limits = Vec::new();
    let mut policies: Vec<&Policy> = new.policies().iter().map(AsRef::as_ref).collect();
    policies.extend(
        old.policies().iter().filter(|gone| new.policy(gone.name().as_str()).is_none()).map(AsRef::as_ref),
    );
    policies.sort_by(|one, other| one.name().cmp(other.name()));
    for policy in policies {
        let limits_in = |config: &Config| {
            config.policy(policy.name().as_str()).map(|policy| policy.limits().to_vec()).unwrap_or_default()
        };
        let slot_in = |config: &Config| {
            config.policy(policy.name().as_str()).map(|policy| policy.cluster_slot().clone())
        };
        let slots = slot_in(old).zip(slot_in(new));
        let slot_changed = is_redis(new) && slots.is_some_and(|(old, new)| old != new);
        let (old, new) = (limits_in(old), limits_in(new));
        let mut changes = compare_limits(policy, &old, &new);
        if slot_changed {
            changes
                .iter_mut()
                .for_each(|change| change.elsewhere("the slot changed: its accounts have other keys"));
        }
        if old.is_empty() || new.is_empty() {
            changes.iter_mut().for_each(|change| change.what = Some("with its policy".to_owned()));
        }
        limits.append(&mut changes);
    }
    let store_changed = store_change(old, new);
    if store_changed.is_some() {
        limits.iter_mut().for_each(|change| change.elsewhere("the store changed"));
    }
    Changes { file: path.display().to_string(), store_changed, limits }
}

fn is_redis(config: &Config) -> bool {
    matches!(config.store(), Some(StoreUrl::Redis(_)))
}

fn store_change(old: &Config, new: &Config) -> Option<String> {
    let name = |config: &Config| config.store().map_or_else(|| "none".to_owned(), ToString::to_string);
    (old.store() != new.store()).then(|| format!("{} -> {}", name(old), name(new)))
}

fn compare_limits(policy: &Policy, old: &[Limit], new: &[Limit]) -> Vec<Change> {
    let change = |limit: &Limit, verdict, what| {
        let address = format!("{}.{}", policy.name(), limit.name());
        Change { address, verdict, what }
    };
    let mut gone: Vec<&Limit> = old.iter().collect();
    let mut changes = Vec::new();
    for limit in new {
        let Some(before) = predecessor(limit, &gone, new) else {
            changes.push(change(limit, Effect::New, None));
            continue;
        };
        gone.retain(|other| *other != before);
        let (verdict, what) = judge(before, limit);
        changes.push(change(limit, verdict, what));
    }
    changes.extend(gone.into_iter().map(|limit| change(limit, Effect::Gone, None)));
    changes
}

/// The limit of the same name, else one that was only renamed.
fn predecessor<'a>(limit: &Limit, old: &[&'a Limit], new: &[Limit]) -> Option<&'a Limit> {
    let named = |name| old.iter().copied().find(|before| before.name() == name);
    let kept = |before: &Limit| new.iter().any(|limit| limit.name() == before.name());
    let renamed = |before: &&Limit| {
        !kept(before) && (*before).clone().named(limit.name().clone()).identity() == limit.identity()
    };
    named(limit.name()).or_else(|| old.iter().copied().find(renamed))
}

fn judge(before: &Limit, after: &Limit) -> (Effect, Option<String>) {
    if before == after {
        return (Effect::Unchanged, None);
    }
    if before.identity() == after.identity() {
        return (Effect::KeepsCounting, Some(amounts(before, after)));
    }
    (Effect::StartsAnew, Some(what_makes_it_another(before, after)))
}

/// Changes that keep the usage.
fn amounts(before: &Limit, after: &Limit) -> String {
    let mut parts = Vec::new();
    if before.amount() != after.amount() {
        parts.push(format!("{} -> {}", count(before.amount()), count(after.amount())));
    }
    if let (Some(old), Some(new)) = (before.burst(), after.burst())
        && old != new
    {
        parts.push(format!("burst {} -> {}", count(old), count(new)));
    }
    if let (Some(old), Some(new)) = (before.slots_expire(), after.slots_expire())
        && old != new
    {
        parts.push(format!("expires {} -> {}", span(old), span(new)));
    }
    parts.join(", ")
}

fn what_makes_it_another(before: &Limit, after: &Limit) -> String {
    if before.name() != after.name() {
        return format!("the name changed from {}", before.name());
    }
    let mut parts = Vec::new();
    if before.unit() != after.unit() {
        parts.push("unit");
    }
    parts.extend(algorithm_change(before, after));
    format!("the {} changed", parts.join(" and the "))
}

fn algorithm_change(before: &Limit, after: &Limit) -> Option<&'static str> {
    let (old, new) = (before.algorithm(), after.algorithm());
    if std::mem::discriminant(old) != std::mem::discriminant(new) {
        return Some("algorithm");
    }
    match (before.calendar(), after.calendar()) {
        (Some(old), Some(new)) => calendar_change(old, new),
        (None, _) | (_, None) => (before.period() != after.period()).then_some("period"),
    }
}

fn calendar_change(old: &Calendar, new: &Calendar) -> Option<&'static str> {
    let same_period = std::mem::discriminant(old) == std::mem::discriminant(new);
    match (old, new) {
        (old, new) if old == new => None,
        (Calendar::Every(_), _) => Some("period"),
        _ if same_period => Some("zone"),
        _ => Some("period"),
    }
}

impl Changes {
    pub(super) fn write(&self, output: &Output) -> Result<(), Failure> {
        output.line(format_args!("compared with {STRONG}{}{STRONG:#}", self.file))?;
        if let Some(change) = &self.store_changed {
            output.line(format_args!("  {WARN}the store changed{WARN:#}: {change}"))?;
        }
        let width = self.limits.iter().map(|change| change.address.chars().count()).max().unwrap_or(0);
        for change in &self.limits {
            output.line(format_args!("  {:width$}  {}", change.address, change.words()))?;
        }
        output.line("")
    }
}

impl Change {
    /// The usage so far is kept where it is not asked for again.
    fn elsewhere(&mut self, why: &str) {
        if matches!(self.verdict, Effect::Unchanged | Effect::KeepsCounting) {
            self.verdict = Effect::StartsAnew;
            self.what = Some(why.to_owned());
        }
    }

    fn words(&self) -> String {
        let what = self.what.as_deref().unwrap_or_default();
        match self.verdict {
            Effect::Unchanged => format!("{FAINT}unchanged{FAINT:#}"),
            Effect::KeepsCounting => format!("{what}, {GOOD}keeps usage{GOOD:#}"),
            Effect::StartsAnew => format!("{WARN}resets{WARN:#}: {what}"),
            Effect::New => format!("{GOOD}new{GOOD:#} {what}").trim_end().to_owned(),
            Effect::Gone => format!("{BAD}removed{BAD:#} {what}").trim_end().to_owned(),
        }
    }
}
