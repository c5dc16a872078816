//! What a finished cycle says about the limit.

use super::super::arithmetic::{calls_in, rate_of, scaled, thousandths};
use super::super::{HOLD_DAILY_MAX, Report};
use super::probe::{GAIN_MIN, GRANTS_PER_REFUSAL};
use super::{Auto, RATE_MAX, RATE_MIN, SECOND};
use crate::{Span, Timestamp};

/// Fewer accepted calls say little: a cycle's ends are known to about one call.
const CALLS_MIN: u64 = 12;

/// A raised limit is noticed after this time at the latest, even where refusals are not paid for by then.
const PROBE_AT_LAST: Span = Span::from_mins(5);
/// Where a refusal once cost the rest of a window, a raised limit is noticed after so many times that wait.
const WAITS_BETWEEN_PROBES: u64 = 15;
/// A shorter wait may be that of a bucket.
const WINDOW_WAIT_MIN: Span = Span::from_secs(4);

/// A ceiling that falls below this share, in thousandths, may only have met a lull of the vendor's.
const FELL: u64 = 800;

/// The measurements of one cycle.
struct Cycle {
    admitted: u64,
    lasted: Span,
    /// From the refusal to the resume.
    waited: Span,
    /// By how much the resume may be off.
    doubt: Span,
    /// Accepted calls a second.
    got: u64,
    /// The same if a bucket was full when the wait ended, and so lost what came in meanwhile.
    most: u64,
    /// The vendor drips: the wait was no longer than two calls and the rounding of a told wait.
    drips: bool,
}

impl Auto {
    /// Ends the cycle at the first accepted call after a refusal.
    pub(super) fn resume(&mut self, report: &Report<'_>) {
        // A bare refusal leaves open when the vendor would have accepted again: between the last trial and this one.
        let between = Span::from_micros(report.now.since(self.last).as_micros() / 2);
        let (resumed, doubt) = match self.told {
            true => (self.hold.min(report.now), Span::ZERO),
            false => (self.last.plus(between), between),
        };
        let cycle = self.measure(resumed, doubt);
        self.row = 0;
        (self.looked, self.looked_at) = (report.now, report.grants);
        self.named.resumed(resumed, self.last_at);
        if self.known {
            self.begin_cycle(resumed);
            self.rate = if self.ceiling > 0 { self.cruise() } else { self.rate };
        } else if self.ceiling > 0 && cycle.admitted < self.enough() {
            // Too little to change the ceiling: slow down, and let the cycle go on.
            self.rate = cycle.got.max(self.rate / 2).min(self.cruise());
            self.gain = 0;
        } else {
            self.learn(&cycle);
            self.begin_cycle(resumed);
            self.rate = self.cruise();
        }
    }

    fn measure(&mut self, resumed: Timestamp, doubt: Span) -> Cycle {
        let waited = resumed.since(self.first);
        let faded = Span::from_micros(scaled(self.longest.as_micros(), 7, 8));
        self.longest = waited.max(faded).min(HOLD_DAILY_MAX);
        let admitted = self.admitted(self.last_at);
        // The vendor named the period in which it counts: a shorter cycle would promise too much.
        let lasted = resumed.since(self.start).max(self.period);
        let got = rate_of(admitted.max(1), lasted).clamp(RATE_MIN, RATE_MAX);
        self.deepest = self.deepest.max(waited).min(HOLD_DAILY_MAX);
        let beyond_rounding = Span::from_micros(waited.as_micros().saturating_sub(SECOND.as_micros()));
        let drips = calls_in(got, beyond_rounding) <= 2;
        let busy = Span::from_micros(lasted.as_micros().saturating_sub(waited.as_micros()));
        let most = if drips { rate_of(admitted, busy).min(RATE_MAX) } else { got };
        Cycle { admitted, lasted, waited, doubt, got, most, drips }
    }

    /// Accepted calls after which a cycle may change the ceiling: its ends are known to a call and a second.
    pub(super) fn enough(&self) -> u64 {
        calls_in(self.ceiling, SECOND).saturating_add(CALLS_MIN)
    }

    fn learn(&mut self, cycle: &Cycle) {
        let before = self.ceiling;
        if before == 0 {
            // One early refusal with a short wait may be chance: a few calls must not set a tiny ceiling.
            let least = if cycle.drips && self.period == Span::ZERO { self.crash / 4 } else { 0 };
            (self.ceiling, self.target) = (cycle.got.max(least), 0);
            self.measured = cycle.lasted.min(HOLD_DAILY_MAX);
        } else {
            let slow = std::mem::take(&mut self.slow);
            self.ceiling = self.estimate(cycle, slow);
            self.plan(cycle, before, slow);
            self.remember(cycle, before);
        }
        if self.period > Span::ZERO {
            // The vendor says what is exhausted: nothing to find out soon.
            self.target = GRANTS_PER_REFUSAL;
        }
    }

    /// Keeps a ceiling that was measured for longer than the one that now replaces it: the vendor may only have had a lull.
    fn remember(&mut self, cycle: &Cycle, before: u64) {
        if self.ceiling < thousandths(before, FELL) && cycle.lasted < self.measured {
            self.former = self.former.max(before);
        } else if self.ceiling >= thousandths(self.former, FELL) {
            self.former = 0;
        }
        self.measured = cycle.lasted.min(HOLD_DAILY_MAX);
    }

    /// The new ceiling. Rather too high: that is soon refused and measured exactly, too low goes unnoticed.
    fn estimate(&self, cycle: &Cycle, slow: u64) -> u64 {
        let high = (cycle.most / 2).saturating_add(cycle.got / 2);
        let allowed = calls_in(self.ceiling, cycle.lasted);
        let slack = (allowed / 50).saturating_add(calls_in(self.ceiling, SECOND)).saturating_add(1);
        if slow > 0 && self.gain > GAIN_MIN {
            // A slow probe has proved the step before the one that was refused.
            high.max(thousandths(self.ceiling, (self.gain / 2).saturating_add(1_000)))
        } else if slow == 0 && cycle.drips && cycle.admitted > allowed.saturating_add(slack) {
            // The limit is higher: somewhere between the average and the rate that was refused.
            cycle.got.saturating_mul(2).saturating_add(self.crash) / 3
        } else if self.gain > 0 && self.target > 0 {
            // The cruise before the probe was not refused.
            high.max(self.ceiling)
        } else {
            high
        }
    }

    /// Decides when to probe next: at once while two cycles disagree, else when the refusals are paid for.
    fn plan(&mut self, cycle: &Cycle, before: u64, slow: u64) {
        let (probing, learning) = (self.gain > 0, self.target == 0);
        let shorter = Span::from_micros(cycle.lasted.as_micros().saturating_sub(cycle.doubt.as_micros()));
        let most = cycle.most.max(rate_of(cycle.admitted, shorter));
        let least = rate_of(cycle.admitted, cycle.lasted.plus(cycle.doubt));
        let within = |down, up| most >= thousandths(before, down) && least <= thousandths(before, up);
        let agrees = within(if probing { 920 } else { 800 }, 1_080);
        if learning && cycle.drips && within(750, 1_250) && (slow == 0 || !agrees) {
            self.slow = calls_in(self.ceiling, cycle.waited.max(SECOND)).saturating_add(2);
            return;
        }
        if !agrees {
            self.target = 0;
            return;
        }
        let latest = match self.deepest >= WINDOW_WAIT_MIN {
            true => Span::from_micros(self.deepest.as_micros().saturating_mul(WAITS_BETWEEN_PROBES)),
            false => PROBE_AT_LAST,
        };
        let latest = latest.min(PROBE_AT_LAST);
        let paid = GRANTS_PER_REFUSAL.saturating_mul(self.refused).min(calls_in(self.ceiling, latest));
        let exact = cycle.got >= thousandths(before, 970);
        self.target = if probing || exact { paid } else { cycle.admitted.min(paid) };
    }
}
