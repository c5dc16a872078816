//! An account of the model: logs, a frontier, and what is remembered.

use std::collections::BTreeMap;

use tollway_core::{CallId, Decision, Limit, PermitId, Policy, Timestamp};

use super::log::Log;

/// All that happened under one policy for one subject.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// The newest clock reading that a change has recorded (I7).
    pub(super) seen: Timestamp,
    /// The place of the last booking.
    pub(super) frontier: Timestamp,
    /// The limit that made it wait, by index.
    pub(super) frontier_limit: usize,
    /// The last booking, while nothing has changed since.
    pub(super) undo: Option<Undo>,
    /// Callers' ids that count once.
    pub(super) calls: Vec<Call>,
    /// Permits that were refunded, and until when that is remembered.
    pub(super) refunds: Vec<(PermitId, Timestamp)>,
    /// When the account was last reset.
    pub(super) reset_at: Timestamp,
    /// Until when permits from before the reset could matter, and so until when it must be known.
    pub(super) reset_expires: Timestamp,
    /// The limits of the last change, by identity.
    identities: Vec<u32>,
    /// A log per limit, also of those that the policy does not name now.
    logs: BTreeMap<u32, LimitLog>,
    /// A denial at a lower rate has made the account live until then, at the least.
    extended_until: Timestamp,
}

/// The log of one limit.
#[derive(Clone, Debug, Default)]
struct LimitLog {
    /// The limit as it was whenever the account changed since the log was brought along: a store may have reckoned the account's
    /// life by any of them.
    versions: Vec<Limit>,
    log: Log,
}

impl LimitLog {
    /// Whether nothing of it is used at `at`, by one of its versions.
    fn unused(&self, at: Timestamp) -> bool {
        self.versions.iter().any(|limit| self.log.used(limit, at) == 0)
    }
}

/// What to go back to when the last booking is returned.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    pub(super) permit: PermitId,
    pub(super) frontier: Timestamp,
    pub(super) frontier_limit: usize,
}

/// A take that was granted under an id.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: CallId,
    /// Policy, subject, and limits with charges: what was asked, in key order.
    pub(super) asked: Vec<Asked>,
    pub(super) permit: PermitId,
    pub(super) decision: Decision,
    pub(super) expires: Timestamp,
}

/// What was asked of one charge.
pub(super) type Asked = (String, String, Vec<(u32, u64)>);

impl Account {
    /// What the logs are as of.
    pub(super) fn as_of(&self) -> Timestamp {
        self.seen.max(self.frontier)
    }

    /// Takes on the limits of `policy`. If they are others than before, the last booking cannot be undone any more, and a limit
    /// that is named again has refilled until the last change at its new rate: nobody else has had one since.
    pub(super) fn fit(&mut self, policy: &Policy) {
        let identities: Vec<u32> = policy.limits().iter().map(Limit::identity).collect();
        if self.identities != identities {
            self.undo = None;
            self.frontier_limit = 0;
            if policy.forgets() {
                self.logs.retain(|identity, _| identities.contains(identity));
            }
            let as_of = self.as_of();
            for limit in policy.limits().iter().filter(|limit| !self.identities.contains(&limit.identity())) {
                if let Some(entry) = self.logs.get_mut(&limit.identity()) {
                    entry.log.refilled(limit, as_of, None);
                }
            }
            self.identities = identities;
        }
        for limit in policy.limits() {
            let entry = self.logs.entry(limit.identity()).or_default();
            if !entry.versions.contains(limit) {
                entry.versions.push(limit.clone());
            }
        }
    }

    /// Notes a change at `now`: what has refilled until then has done so at the rates of `policy`.
    pub(super) fn record_change(&mut self, policy: &Policy, now: Timestamp, by: Option<PermitId>) {
        self.seen = now;
        self.extended_until = Timestamp::EPOCH;
        let as_of = self.as_of();
        for limit in policy.limits() {
            let entry = self.logs.get_mut(&limit.identity()).expect("the account fits the policy");
            entry.log.refilled(limit, as_of, by);
            entry.versions = vec![limit.clone()];
        }
    }

    /// Notes a denial: an account whose rate was lowered must live until it is as good as new at the lower one.
    pub(super) fn denied(&mut self, policy: &Policy) {
        let as_of = self.as_of();
        let logs =
            policy.limits().iter().filter_map(|limit| Some((limit, self.logs.get(&limit.identity())?)));
        let refilled = logs.filter_map(|(limit, entry)| entry.log.refilled_at(limit, as_of)).max();
        self.extended_until = self.extended_until.max(refilled.unwrap_or_default());
    }

    pub(super) fn log(&self, limit: &Limit) -> &Log {
        &self.logs[&limit.identity()].log
    }

    pub(super) fn log_mut(&mut self, limit: &Limit) -> &mut Log {
        &mut self.logs.get_mut(&limit.identity()).expect("the account fits the policy").log
    }

    /// Takes the last booking back, if it was this permit's and nothing has changed since.
    pub(super) fn undo(&mut self, permit: PermitId, policy: &Policy, now: Timestamp) -> bool {
        let Some(undo) = self.undo.take_if(|undo| undo.permit == permit) else { return false };
        self.frontier = undo.frontier;
        self.frontier_limit = undo.frontier_limit;
        self.logs.values_mut().for_each(|entry| entry.log.forget(permit));
        self.record_change(policy, now, None);
        true
    }

    /// Makes the account new. Ids still count once.
    pub(super) fn reset(&mut self, policy: &Policy, clock: Timestamp) {
        let seen = self.seen.max(clock);
        let longest = policy.limits().iter().map(Limit::longest_memory).max().unwrap_or_default();
        let reset_expires = seen.max(self.frontier).plus(longest);
        let calls = std::mem::take(&mut self.calls);
        *self = Self { seen, reset_at: seen, reset_expires, calls, ..Self::default() };
    }

    /// Whether an account that was never touched would answer the same at `at` and later, if nobody asks at another rate than the
    /// last: then a store may have forgotten it.
    pub(super) fn is_fresh(&self, at: Timestamp) -> bool {
        let unused = self.extended_until <= at && self.logs.values().all(|entry| entry.unused(at));
        let nothing_remembered = self.calls.iter().all(|call| call.expires <= at)
            && self.refunds.iter().all(|(_, expires)| *expires <= at);
        unused && nothing_remembered && self.frontier.max(self.reset_expires) <= at
    }

    /// Whether something that is as good as new counts again at the rates of `policy`, which are lower: an account that may have
    /// been forgotten, or the meter of a limit that was not named meanwhile.
    pub(super) fn may_count_again(&self, policy: &Policy, clock: Timestamp, newest: Timestamp) -> bool {
        let (as_of, forgotten) = (self.as_of().max(clock), self.is_fresh(newest));
        policy.limits().iter().any(|limit| {
            let gone = |entry: &&LimitLog| {
                forgotten || (!self.identities.contains(&limit.identity()) && entry.unused(as_of.max(newest)))
            };
            let entry = self.logs.get(&limit.identity()).filter(gone);
            entry.is_some_and(|entry| entry.log.used(limit, as_of) > 0)
        })
    }
}
