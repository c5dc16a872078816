//! in every possible order of the calls, no limit was exceeded.

use tollway_core::{Calendar, Span, Timestamp};

use super::{Fault, HistoryCall, Rule, Stretch, fault, micros};
use crate::calendar::{multiple_of, window_at};

/// The calls of one account, as one limit sees them.
pub(super) struct Safety<'c> {
    pub(super) limit: usize,
    /// By how much the store's clock may differ.
    pub(super) error: Span,
    pub(super) admitted: Vec<&'c HistoryCall>,
    pub(super) unknown: Vec<&'c HistoryCall>,
}

impl Safety<'_> {
    pub(super) fn check(&self, rule: &Rule) -> Result<(), Fault> {
        match rule {
            Rule::Window(amount, calendar) => self.window(*amount, calendar),
            Rule::Sliding(amount, period) => self.sliding(*amount, *period),
            Rule::FromFirstCall(amount, period) => self.windows_from_first_call(*amount, *period),
            Rule::Bucket { amount, period, burst } => self.bucket(*amount, *period, *burst),
            Rule::Slots(amount) => self.slots(*amount),
        }
    }

    /// Calls wholly inside one window, minus possible returns, are within the amount.
    fn window(&self, amount: u64, calendar: &Calendar) -> Result<(), Fault> {
        for first in &self.admitted {
            let (start, end) = window_at(calendar, first.when.invoke);
            let taken = self.sum(|call| start <= self.earliest(call) && self.latest(call) < end);
            if taken > u128::from(amount) + self.back_before(end) {
                return self.over(format!("{taken} of {amount} granted in the window from {start:?}"));
            }
        }
        Ok(())
    }

    /// At the latest moment of a call: all calls wholly in its window and answered by then, plus the covered part of those
    /// wholly in the previous window. The last of them to act counted them all. Possible returns are left out.
    fn sliding(&self, amount: u64, period: Span) -> Result<(), Fault> {
        for last in &self.admitted {
            let (start, end) = multiple_of(period, self.earliest(last));
            if self.latest(last) >= end {
                continue;
            }
            let kept = |call: &HistoryCall| call.back.is_none_or(|back| back.invoke > last.when.complete);
            let wholly = |call: &HistoryCall, from, to| {
                from <= self.earliest(call) && self.latest(call) < to && kept(call)
            };
            let answered = |call: &HistoryCall| call.when.complete <= last.when.complete;
            let current = self.sum(|call| answered(call) && wholly(call, start, end));
            let previous = self.sum(|call| wholly(call, start.minus(period), start));
            let covered = micros(end.since(self.latest(last)));
            let used = current * micros(period) + previous * covered;
            if used > u128::from(amount) * micros(period) {
                let used = used.div_ceil(micros(period));
                return self
                    .over(format!("{used} of {amount} used in the period before {:?}", last.when.complete));
            }
        }
        Ok(())
    }

    /// Follows windows one by one. The start and the end of a window are known as well as the calls that may have started
    /// it; calls wholly between two ends are within the amount.
    fn windows_from_first_call(&self, amount: u64, period: Span) -> Result<(), Fault> {
        let charged = |call: &&&HistoryCall| call.costs[self.limit] > 0;
        let admitted = || self.admitted.iter().filter(charged);
        let unknown = || self.unknown.iter().filter(charged);
        // The previous window ended between these two; the current one began between the other two.
        let mut ended = Timestamp::EPOCH;
        let mut began = (admitted().chain(unknown()).map(|call| self.earliest(call)).min())
            .zip(admitted().map(|call| self.latest(call)).min());
        while let Some((from, to)) = began {
            let ends = (from.plus(period), to.plus(period));
            let taken = self.sum(|call| ended <= self.earliest(call) && self.latest(call) < ends.0);
            let back = self.back_before(ends.1);
            if taken > u128::from(amount) + back {
                return self
                    .over(format!("{taken} of {amount} granted in the window that began before {to:?}"));
            }
            // A window whose calls were all returned may have been dropped: the start of the next one is unknown.
            if back > 0 {
                return Ok(());
            }
            let late = admitted().filter(|call| self.latest(call) >= ends.0).chain(unknown());
            let earliest = late.map(|call| self.earliest(call)).min();
            let after = admitted().filter(|call| self.earliest(call) >= ends.1);
            began = earliest.map(|at| at.max(ends.0)).zip(after.map(|call| self.latest(call)).min());
            ended = ends.1;
        }
        Ok(())
    }

    /// Between any start and any end, at most the burst plus the refill.
    fn bucket(&self, amount: u64, period: Span, burst: u64) -> Result<(), Fault> {
        let mut by_end = self.admitted.clone();
        by_end.sort_by_key(|call| call.when.complete);
        for start in self.admitted.iter().map(|call| call.when.invoke) {
            let mut granted = 0u128;
            for call in by_end.iter().filter(|call| call.when.invoke >= start) {
                granted += u128::from(call.costs[self.limit]);
                let end = call.when.complete;
                // Two clock readings, each off by the error.
                let refilled = micros(end.since(start).plus(self.error.times(2))) * u128::from(amount);
                let room = u128::from(burst) + self.back_before(end.plus(Span::from_micros(1)));
                if granted * micros(period) > room * micros(period) + refilled {
                    return self.over(format!("{granted} granted from {start:?} to {end:?}"));
                }
            }
        }
        Ok(())
    }

    /// At no moment are more slots surely held than exist.
    fn slots(&self, amount: u64) -> Result<(), Fault> {
        for moment in self.admitted.iter().map(|call| call.when.complete) {
            let held = |call: &&&HistoryCall| {
                call.when.complete <= moment && call.back.is_none_or(|back| moment < back.invoke)
            };
            let held = self.admitted.iter().filter(held).count();
            if held > amount as usize {
                return self.over(format!("{held} of {amount} slots held at {moment:?}"));
            }
        }
        Ok(())
    }

    /// The first moment of the store's clock at which a call may have acted.
    fn earliest(&self, call: &HistoryCall) -> Timestamp {
        call.when.invoke.minus(self.error)
    }

    /// The last one.
    fn latest(&self, call: &HistoryCall) -> Timestamp {
        call.when.complete.plus(self.error)
    }

    fn sum(&self, which: impl Fn(&HistoryCall) -> bool) -> u128 {
        let calls = self.admitted.iter().filter(|call| which(call));
        calls.map(|call| u128::from(call.costs[self.limit])).sum()
    }

    /// What may have come back before `end`.
    fn back_before(&self, end: Timestamp) -> u128 {
        let came = |back: Stretch| back.invoke.minus(self.error) < end;
        self.sum(|call| call.back.is_some_and(came))
    }

    fn over(&self, what: String) -> Result<(), Fault> {
        fault("A-1", format!("limit {}: {what}", self.limit))
    }
}
