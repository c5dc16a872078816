//! A line of the model: logs, a frontier, and what is remembered.

use std::collections::BTreeMap;

use tollway_core::{CallId, Grant, Limit, PermitId, Policy, Timestamp};

use super::log::Log;

/// All that happened under one policy for one subject.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
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
    /// When the line was last reset.
    pub(super) epoch: Timestamp,
    /// Until when permits from before the reset could matter, and so until when it must be known.
    pub(super) epoch_matters_until: Timestamp,
    /// The limits of the last change, by identity.
    identities: Vec<u32>,
    /// A log per limit, also of those that the policy does not name now.
    logs: BTreeMap<u32, (Limit, Log)>,
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
    pub(super) grant: Grant,
    pub(super) expires: Timestamp,
}

/// What was asked of one party.
pub(super) type Asked = (String, String, Vec<(u32, u64)>);

impl Line {
    /// What the logs are as of.
    pub(super) fn as_of(&self) -> Timestamp {
        self.seen.max(self.frontier)
    }

    /// Takes on the limits of `policy`. If they are others than before, the last booking cannot be undone any more.
    pub(super) fn fit(&mut self, policy: &Policy) {
        let identities: Vec<u32> = policy.limits().iter().map(Limit::identity).collect();
        if self.identities != identities {
            self.undo = None;
            self.frontier_limit = 0;
            if policy.forgets() {
                self.logs.retain(|identity, _| identities.contains(identity));
            }
            self.identities = identities;
        }
        for limit in policy.limits() {
            let (known, _) =
                self.logs.entry(limit.identity()).or_insert_with(|| (limit.clone(), Log::default()));
            *known = limit.clone();
        }
    }

    pub(super) fn log(&self, limit: &Limit) -> &Log {
        &self.logs[&limit.identity()].1
    }

    pub(super) fn log_mut(&mut self, limit: &Limit) -> &mut Log {
        &mut self.logs.get_mut(&limit.identity()).expect("the line fits the policy").1
    }

    /// Takes the last booking back, if it was this permit's and nothing has changed since.
    pub(super) fn undo(&mut self, permit: PermitId, now: Timestamp) -> bool {
        let Some(undo) = self.undo.take_if(|undo| undo.permit == permit) else { return false };
        self.frontier = undo.frontier;
        self.frontier_limit = undo.frontier_limit;
        self.seen = now;
        self.logs.values_mut().for_each(|(_, log)| log.forget(permit));
        true
    }

    /// Makes the line new. Ids still count once.
    pub(super) fn reset(&mut self, policy: &Policy, clock: Timestamp) {
        let seen = self.seen.max(clock);
        let longest = policy.limits().iter().map(Limit::longest_memory).max().unwrap_or_default();
        let epoch_matters_until = seen.max(self.frontier).plus(longest);
        let calls = std::mem::take(&mut self.calls);
        *self = Self { seen, epoch: seen, epoch_matters_until, calls, ..Self::default() };
    }

    /// Whether a line that was never touched would answer the same at `at` and later.
    pub(super) fn good_as_new(&self, at: Timestamp) -> bool {
        let unused = self.logs.values().all(|(limit, log)| log.used(limit, at) == 0);
        let nothing_remembered = self.calls.iter().all(|call| call.expires <= at)
            && self.refunds.iter().all(|(_, expires)| *expires <= at);
        unused && nothing_remembered && self.frontier.max(self.epoch_matters_until) <= at
    }
}
