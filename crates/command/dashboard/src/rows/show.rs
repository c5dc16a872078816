//! Rows of what is known: the fullest first, in at most so many bytes.

use std::collections::{BTreeMap, HashSet};

use tollway::metrics::Waiting;
use tollway::{Limit, Name, Policy, Timestamp};

use super::limit::{Reading, TrackedLimit, UNKNOWN};
use super::policy::TrackedPolicy;
use super::recent::Recent;
use super::table::Table;
use crate::sentence::{Facts, Rank};
use crate::snapshot::{Mode, Row, RowSubjects, SeenBy};

/// A figure that is older says so.
const FRESH_MILLIS: u64 = 3_000;

/// The characters of a sparkline, from empty to full.
const SPARK: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What all rows of a moment share.
pub(crate) struct Moment<'m> {
    pub(crate) now: Timestamp,
    /// Whether takes are decided without the store.
    pub(crate) degraded: bool,
    /// The callers that wait, by policy.
    pub(crate) waiting: &'m BTreeMap<String, Waiting>,
}

/// One limit of a policy that may have been used, and all that is known of it.
pub(crate) struct ShownLimit<'t> {
    pub(crate) policy: &'t Policy,
    pub(crate) limit: &'t Limit,
    pub(crate) is_stopped: bool,
    pub(crate) reading: Option<Reading>,
    /// If this process used it.
    pub(crate) tracked: Option<(&'t TrackedPolicy, &'t TrackedLimit)>,
}

impl Table {
    /// The limits that were used, the worst and fullest first: at most so many, and how many there are.
    pub(crate) fn rows(&self, moment: &Moment<'_>, at_most: usize) -> (Vec<Row>, usize) {
        let mut seen = HashSet::new();
        let mut shown = Vec::new();
        for policy in self.policies.iter().filter(|policy| policy.recent.is_some()) {
            let Some(in_force) = policy.in_force.as_deref() else { continue };
            for (tracked, limit) in policy.limits.iter().zip(in_force.limits()) {
                if seen.insert(tracked.id.as_str()) {
                    let limit = ShownLimit::tracked(policy, tracked, in_force, limit);
                    shown.push((limit.place(moment), limit));
                }
            }
        }
        let all = shown.len();
        shown.sort_unstable_by(|(one, a), (other, b)| other.cmp(one).then_with(|| a.name().cmp(&b.name())));
        (shown.iter().take(at_most).map(|(_, limit)| limit.row(moment)).collect(), all)
    }
}

impl<'t> ShownLimit<'t> {
    pub(crate) fn tracked(
        policy: &'t TrackedPolicy,
        tracked: &'t TrackedLimit,
        in_force: &'t Policy,
        limit: &'t Limit,
    ) -> Self {
        Self {
            policy: in_force,
            limit,
            is_stopped: tracked.is_stopped,
            reading: tracked.reading,
            tracked: Some((policy, tracked)),
        }
    }

    fn name(&self) -> (&Name, &Name) {
        (self.policy.name(), self.limit.name())
    }

    /// Where it stands: larger is higher up.
    fn place(&self, moment: &Moment<'_>) -> (Rank, u64, u64) {
        let full = self.reading.map_or(0, |reading| reading.permille(moment.now));
        let facts = Facts {
            stopped: self.is_stopped,
            held: self
                .reading
                .is_some_and(|reading| reading.held_until.is_some_and(|until| until > moment.now)),
            shadow: self.policy.shadow(),
            waiting: moment.waiting.get(self.policy.name().as_str()).map_or(0, |waiting| waiting.callers),
            full: full >= 1_000,
        };
        (Rank::of(facts), full, self.tracked.map_or(0, |(policy, _)| policy.granted_5m()))
    }

    /// The row.
    pub(crate) fn row(&self, moment: &Moment<'_>) -> Row {
        let now = moment.now.as_millis();
        let name = self.policy.name().as_str();
        let waiting = moment.waiting.get(name).copied().unwrap_or_default();
        let used = self.reading.map(|reading| reading.used_at(moment.now));
        let capacity = self.reading.map_or(self.limit.capacity(), |reading| reading.capacity);
        let resets_at = self.reading.map(|reading| reading.resets_at.as_millis()).filter(|at| *at > now);
        let held_until = self.reading.and_then(|reading| reading.held_until).map(|until| until.as_millis());
        let is_full = used.is_some_and(|used| used >= capacity && capacity > 0);
        // A shadow makes no caller wait.
        let until_reset = resets_at.filter(|_| is_full && !self.policy.shadow()).map(|at| at - now);
        let wait_ms =
            waiting.wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)).or(until_reset);
        let subjects =
            self.tracked.filter(|(policy, _)| policy.has_subjects()).map(|(policy, _)| RowSubjects {
                seen_5m: policy.subjects().map(|seen| seen.count),
                fullest_percent: self.reading.map(|reading| reading.permille(moment.now) / 10),
            });
        let modes = [
            (Mode::Shadow, self.policy.shadow()),
            (Mode::Stopped, self.is_stopped),
            (Mode::Degraded, moment.degraded),
            (Mode::Held, held_until.is_some_and(|until| until > now)),
        ];
        let of_store = used.is_some() && subjects.is_none();
        Row {
            id: format!("{name}/{}", self.limit.name()),
            policy: name.to_owned(),
            limit: self.limit.name().to_string(),
            text: self.limit.to_string(),
            unit: self.limit.unit().to_string(),
            amount: if self.is_stopped { 0 } else { self.limit.amount() },
            capacity,
            used,
            resets_at,
            seen_by: if of_store { SeenBy::Store } else { SeenBy::Process },
            as_of: self
                .reading
                .map(|reading| reading.at.as_millis())
                .filter(|at| now.saturating_sub(*at) > FRESH_MILLIS),
            held_until,
            waiting: waiting.callers,
            wait_ms,
            granted_5m: self.tracked.map_or(0, |(policy, _)| policy.granted_5m()),
            denied_5m: self.tracked.map_or(0, |(_, limit)| limit.denied_5m()),
            spark: self
                .tracked
                .and_then(|(_, limit)| limit.recent.as_ref())
                .map_or_else(unknown, |recent| spark(&recent.used)),
            modes: modes.into_iter().filter(|(_, holds)| *holds).map(|(mode, _)| mode).collect(),
            subjects,
        }
    }
}

fn unknown() -> String {
    spark(&Recent::of(UNKNOWN))
}

fn spark(used: &Recent<u8>) -> String {
    used.values().map(spark_of).collect()
}

/// The character of a step.
fn spark_of(used: u8) -> char {
    SPARK.get(usize::from(used)).map_or('-', |byte| char::from(*byte))
}
