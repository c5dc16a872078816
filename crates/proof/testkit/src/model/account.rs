//! An account of the model: logs, a frontier, remembered ids and refunds.

use std::collections::BTreeMap;

use tollway_core::bounds::LEARNED_KEPT;
use tollway_core::{CallId, Decision, Limit, PermitId, Policy, Timestamp};

use super::log::Log;

/// Everything that happened under one policy for one subject.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// The newest clock reading that a change has recorded (I7).
    pub(super) seen: Timestamp,
    /// The time of the last booking.
    pub(super) frontier: Timestamp,
    /// The limit that made it wait, by index.
    pub(super) frontier_limit: usize,
    /// The end of the vendor's hold.
    pub(super) held_until: Timestamp,
    /// What the vendor says is left of a limit, by its identity: units, and until when.
    pub(super) caps: BTreeMap<u32, (u64, Timestamp)>,
    /// The last booking, while nothing has changed since.
    pub(super) undo: Option<Undo>,
    /// Granted takes by the caller's id.
    pub(super) calls: Vec<RememberedTake>,
    /// Refunded permits, and until when they are remembered.
    pub(super) refunds: Vec<(PermitId, Timestamp)>,
    /// When the account was last reset.
    pub(super) reset_at: Timestamp,
    /// When the last permit granted before the reset expires.
    pub(super) reset_expires: Timestamp,
    /// The limits of the last change, by identity.
    identities: Vec<u32>,
    /// A log per limit, also of removed limits.
    logs: BTreeMap<u32, LimitLog>,
    /// A denial at a lowered rate has extended the account's life at least until then.
    extended_until: Timestamp,
}

/// The log of one limit.
#[derive(Clone, Debug, Default)]
struct LimitLog {
    /// The versions of the limit since the last change: a store may have computed the expiry by any of them.
    versions: Vec<Limit>,
    log: Log,
}

impl LimitLog {
    /// Whether nothing of it is used at `at`, by one of its versions.
    fn unused(&self, at: Timestamp) -> bool {
        self.log.learned.until <= at && self.versions.iter().any(|limit| self.log.used(limit, at) == 0)
    }
}

/// The state to restore when the last booking is returned.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    pub(super) permit: PermitId,
    pub(super) frontier: Timestamp,
    pub(super) frontier_limit: usize,
    /// Grants of an adaptive limit before it.
    pub(super) grants: u64,
}

/// A take that was granted under an id.
#[derive(Clone, Debug)]
pub(super) struct RememberedTake {
    pub(super) id: CallId,
    /// The charges in key order: policy, subject, and amounts per limit.
    pub(super) asked: Vec<Asked>,
    pub(super) permit: PermitId,
    pub(super) decision: Decision,
    pub(super) expires: Timestamp,
}

/// One charge: policy, subject, and amounts per limit.
pub(super) type Asked = (String, String, Vec<(u32, u64)>);

impl Account {
    /// The time the logs are as of.
    pub(super) fn as_of(&self) -> Timestamp {
        self.seen.max(self.frontier)
    }

    /// Adopts the limits of `policy`. If they differ, the last booking cannot be undone any more, and a restored limit has
    /// refilled until the last change at its new rate.
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

    /// Records a change at `now`: the refill until then counts at the rates of `policy`. A renewal keeps the last booking
    /// undoable, so what it records until the frontier is undone with that booking.
    pub(super) fn record_change(&mut self, policy: &Policy, now: Timestamp) {
        self.seen = now;
        let undone_with = self.undo.as_ref().map(|undo| undo.permit);
        self.extended_until = Timestamp::EPOCH;
        let as_of = self.as_of();
        for limit in policy.limits() {
            let entry = self.logs.get_mut(&limit.identity()).expect("the account fits the policy");
            entry.log.refilled(limit, as_of, undone_with);
            entry.versions = vec![limit.clone()];
            if entry.log.learned.version > 0 {
                entry.log.learned.until = as_of.plus(LEARNED_KEPT);
            }
        }
    }

    /// Records a denial: an account whose rate was lowered must live until it has refilled at the lower rate.
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

    /// Undoes the last booking, if it was this permit's and nothing has changed since.
    pub(super) fn undo(&mut self, permit: PermitId, policy: &Policy, now: Timestamp) -> bool {
        let Some(undo) = self.undo.take_if(|undo| undo.permit == permit) else { return false };
        self.frontier = undo.frontier;
        self.frontier_limit = undo.frontier_limit;
        self.logs.values_mut().for_each(|entry| entry.log.forget(permit));
        if let Some(log) = self.adaptive_log(policy) {
            log.learned.grants = undo.grants;
        }
        self.record_change(policy, now);
        true
    }

    /// The log of the policy's adaptive limit.
    pub(super) fn adaptive_log(&mut self, policy: &Policy) -> Option<&mut Log> {
        let limit = policy.limits().iter().find(|limit| limit.is_adaptive())?;
        Some(self.log_mut(limit))
    }

    /// What was learned is remembered from now on.
    pub(super) fn remember_learned(&mut self, policy: &Policy) {
        let until = self.as_of().plus(LEARNED_KEPT);
        if let Some(log) = self.adaptive_log(policy)
            && log.learned.version > 0
        {
            log.learned.until = until;
        }
    }

    /// Whether something was learned under one of its limits.
    pub(super) fn has_learned(&self) -> bool {
        self.logs.values().any(|entry| entry.log.learned.version > 0)
    }

    /// Resets the account. Ids still count once.
    pub(super) fn reset(&mut self, policy: &Policy, clock: Timestamp) {
        let seen = self.seen.max(clock);
        let longest = policy.limits().iter().map(Limit::longest_memory).max().unwrap_or_default();
        let reset_expires = seen.max(self.frontier).plus(longest);
        let calls = std::mem::take(&mut self.calls);
        *self = Self { seen, reset_at: seen, reset_expires, calls, ..Self::default() };
    }

    /// Whether a fresh account would answer the same at `at` and later, at unchanged rates: then a store may have dropped
    /// this one.
    pub(super) fn is_fresh(&self, at: Timestamp) -> bool {
        let unused = self.extended_until <= at && self.logs.values().all(|entry| entry.unused(at));
        let nothing_remembered = self.calls.iter().all(|call| call.expires <= at)
            && self.refunds.iter().all(|(_, expires)| *expires <= at)
            && self.caps.values().all(|(_, until)| *until <= at);
        unused && nothing_remembered && self.frontier.max(self.reset_expires).max(self.held_until) <= at
    }

    /// Whether expired usage counts again at the lower rates of `policy`: of an account that may have been dropped, or of a
    /// removed limit.
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
