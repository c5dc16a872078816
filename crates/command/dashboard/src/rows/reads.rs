//! Which accounts are read from the store this second: those on the screen, then those that were not read for longest.

use std::cmp::Reverse;

use tollway::{Limiter, Name, Policy, Subject, Timestamp, Usage};

use super::limit::Reading;
use super::policy::TrackedPolicy;
use super::table::Table;

/// Accounts that are read in a second, in one batch, however many viewers there are.
const READS_MAX: usize = 100;

/// Accounts of a store in this process that are read in five seconds, for the history.
const READS_IN_PROCESS_MAX: usize = 500;

/// How many of them are for the fullest policies, which stand on top of the first screen.
const READS_OF_FULLEST: usize = 60;

/// The busiest subjects of a policy among which the fullest is looked for.
const SUBJECTS_LOOKED_AT: usize = 8;

/// An account to read, and the policy in the table that it belongs to.
pub(crate) struct Read {
    policy: usize,
    pub(crate) account: (Name, Subject),
}

impl Table {
    /// The accounts to read now.
    pub(crate) fn reads(&self, now: Timestamp) -> Vec<Read> {
        let active = |index: &usize| {
            self.policies[*index].recent.is_some() && self.policies[*index].in_force.is_some()
        };
        let mut active: Vec<usize> = (0..self.policies.len()).filter(active).collect();
        // Never read is fullest: it may be.
        active.sort_by_cached_key(|index| {
            let policy = &self.policies[*index];
            Reverse(policy.read_at().map_or(u64::MAX, |_| policy.fullness(now)))
        });
        let (fullest, others) = active.split_at(active.len().min(READS_OF_FULLEST));
        let mut others = others.to_vec();
        others.sort_by_cached_key(|index| self.policies[*index].read_at());
        let mut reads = Vec::with_capacity(READS_MAX);
        for index in fullest.iter().copied().chain(others) {
            if reads.len() >= READS_MAX {
                break;
            }
            self.add_reads(index, now, &mut reads);
        }
        reads.truncate(READS_MAX);
        reads
    }

    fn add_reads(&self, index: usize, now: Timestamp, reads: &mut Vec<Read>) {
        let policy = &self.policies[index];
        let mut add =
            |subject: Subject| reads.push(Read { policy: index, account: (policy.name.clone(), subject) });
        // Also beside subjects: callers that name none share an account, and it may be the fullest.
        add(Subject::SHARED);
        if !policy.has_subjects() {
            return;
        }
        // One of the busiest each second, and the fullest so far.
        let seen = policy.subjects().unwrap_or_default();
        let looked_at = seen.busiest.len().clamp(1, SUBJECTS_LOOKED_AT);
        let turn = usize::try_from(now.as_millis() / 1_000).unwrap_or(0) % looked_at;
        let busy = seen.busiest.get(turn).map(|one| one.subject.clone());
        let is_read = |subject: &Subject| busy.as_ref() == Some(subject) || *subject == Subject::SHARED;
        let fullest = policy.fullest.clone().filter(|fullest| !is_read(fullest));
        busy.into_iter().chain(fullest).for_each(&mut add);
    }

    /// Takes in what the store said.
    pub(crate) fn take_in(&mut self, reads: &[Read], usages: Vec<Option<Usage>>, now: Timestamp) {
        for (read, usage) in reads.iter().zip(usages) {
            let Some(policy) = self.policies.get_mut(read.policy) else { continue };
            let Some(usage) = usage.filter(|usage| usage.limits.len() == policy.limits.len()) else {
                continue;
            };
            let subject = &read.account.1;
            let in_force = policy.in_force.clone();
            let readings = readings(&usage, in_force.as_deref(), now);
            if policy.has_subjects() {
                let fullness = readings.iter().map(|reading| reading.permille(now)).max().unwrap_or(0);
                let is_known = policy.fullest.as_ref() == Some(subject);
                if !is_known && policy.fullest.is_some() && policy.fullness(now) >= fullness {
                    continue;
                }
                policy.fullest = Some(subject.clone());
            }
            for (limit, reading) in policy.limits.iter_mut().zip(readings) {
                limit.reading = Some(reading);
            }
        }
    }

    /// The shared accounts that the history keeps, of a store in this process: no request leaves it. The next call goes on
    /// where this one ends.
    pub(crate) fn reads_in_process(&self, limiter: &Limiter, from: &mut usize) -> Vec<Read> {
        if !limiter.is_in_process() {
            return Vec::new();
        }
        let is_read = |policy: &TrackedPolicy| {
            policy.recent.is_some() && policy.in_force.is_some() && !policy.has_subjects()
        };
        let active = self.policies.iter().enumerate().filter(|(_, policy)| is_read(policy));
        let read = |(index, policy): (usize, &TrackedPolicy)| Read {
            policy: index,
            account: (policy.name.clone(), Subject::SHARED),
        };
        let reads: Vec<Read> = active.skip(*from).take(READS_IN_PROCESS_MAX).map(read).collect();
        *from = if reads.len() < READS_IN_PROCESS_MAX { 0 } else { *from + READS_IN_PROCESS_MAX };
        reads
    }
}

/// In local time: the store's clock may be another.
pub(crate) fn readings(usage: &Usage, policy: Option<&Policy>, now: Timestamp) -> Vec<Reading> {
    let held = usage.held_until;
    let limits = policy.map_or(&[][..], Policy::limits);
    let closed_until = |limit: &tollway::LimitUsage| {
        let in_force = limits.iter().find(|known| *known.name() == limit.name)?;
        in_force.closed_until(limit.as_of, limit.resets_at, now)
    };
    // If calls are booked past the running window, the reading is of the window of the last booking, and the running one is
    // used up.
    let reading = |limit: &tollway::LimitUsage| Reading {
        used: if closed_until(limit).is_some() { limit.capacity } else { limit.used },
        capacity: limit.capacity,
        resets_at: closed_until(limit).unwrap_or_else(|| now.plus(limit.resets_in)),
        held_until: held.map(|until| now.plus(until.since(limit.as_of))).filter(|until| *until > now),
        at: now,
    };
    usage.limits.iter().map(reading).collect()
}
