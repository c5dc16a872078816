//! The controller that measures a vendor's limit.

mod shown;

use serde::{Deserialize, Serialize};

use super::arithmetic::{calls_in, rate_of, scaled, thousandths};
use super::{Cap, HOLD_DAILY_MAX, HOLD_MAX, ONE_CALL, Pace, RateRefusal, Report};
use crate::{Span, Timestamp};

use self::shown::{Named, Shown};

/// The lowest rate: one call an hour, as long as the longest hold.
const RATE_MIN: u64 = 278;
/// The highest rate: a million calls a second.
const RATE_MAX: u64 = 1_000_000 * ONE_CALL;
/// Grants after which a measured ceiling is tried again for the first time. Fewer say little: the error is one in so many.
const CYCLE_MIN: u64 = 12;
/// A probe goes so many thousandths above the ceiling before there is a sign that the limit is higher.
const GAIN_MAX: u64 = 320;
const GAIN_MIN: u64 = 40;
/// Grants that pay for one refusal in the long run.
const GRANTS_PER_REFUSAL: u64 = 500;
/// How long a trial call may stay without an answer before another one is sent.
const TRIAL: Span = Span::from_secs(60);
const SECOND: Span = Span::from_secs(1);

/// The state of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Auto {
    rate: u64,
    /// The measured limit; 0 while it is unknown.
    ceiling: u64,
    /// Cruise this many ten-thousandths below the ceiling.
    margin: u64,
    cut: u64,
    hold_until: Timestamp,
    /// A cycle lasts from one resume after a refusal to the next.
    cycle_start: Timestamp,
    cycle_grants: u64,
    cycle_refused: u64,
    /// Grants of a cycle before the ceiling is probed.
    target: u64,
    /// By how many thousandths the rate is above the ceiling; 0 while cruising.
    gain: u64,
    raised_at: Timestamp,
    raised_grants: u64,
    /// Refusals in a row: cuts since the last accepted call.
    row: u64,
    refused_at: Timestamp,
    first_refused_at: Timestamp,
    refused_grants: u64,
    refused_rate: u64,
    told: bool,
    wait: Span,
    longest_wait: Span,
    /// The refusal was explained by a quota that the vendor shows: nothing to learn.
    explained: bool,
    /// The period of the quota that the vendor named in its last refusal.
    names: Span,
    shown: [Shown; 2],
    /// A slow probe stays at each step until it has sent so many calls beyond the ceiling.
    slow: u64,
    step_at: Timestamp,
    named: Named,
    grants: u64,
    accepted: u64,
}

impl Default for Auto {
    fn default() -> Self {
        Self {
            rate: 3 * ONE_CALL,
            ceiling: 0,
            margin: 50,
            cut: 0,
            hold_until: Timestamp::EPOCH,
            cycle_start: Timestamp::EPOCH,
            cycle_grants: 0,
            cycle_refused: 0,
            target: 0,
            gain: 0,
            raised_at: Timestamp::EPOCH,
            raised_grants: 0,
            row: 0,
            refused_at: Timestamp::EPOCH,
            first_refused_at: Timestamp::EPOCH,
            refused_grants: 0,
            refused_rate: 0,
            told: false,
            wait: Span::ZERO,
            longest_wait: Span::ZERO,
            explained: false,
            names: Span::ZERO,
            shown: [Shown::default(); 2],
            slow: 0,
            step_at: Timestamp::EPOCH,
            named: Named::default(),
            grants: 0,
            accepted: 0,
        }
    }
}

impl Auto {
    pub(super) fn report(&mut self, report: &Report<'_>) -> Pace {
        if self.cycle_start == Timestamp::EPOCH {
            self.cycle_start = report.now;
            self.raised_at = report.now;
        }
        self.grants = report.grants;
        self.accepted = self.accepted.saturating_add(report.accepted);
        if self.named.advance(report.now, report.grants) {
            // The store held calls back for the rest of a long period: the cycle says nothing.
            self.refused_grants = report.grants;
            self.restart(report.now);
        }
        for (shown, quota) in self.shown.iter_mut().zip(report.quotas) {
            shown.observe(report.now.minus(quota.age), self.rate, quota);
        }
        match report.refusal {
            Some(refusal) => self.refuse(report, refusal),
            None if self.row > 0 && report.accepted > 0 && report.accepted_cut >= self.cut => self.resume(report),
            None if self.row == 0 => self.raise(report),
            None => {}
        }
        self.pace(report.now)
    }

    pub(super) fn pace(&self, now: Timestamp) -> Pace {
        let hold = self.hold_until.since(now);
        let mut rate = self.rate;
        let mut cap = self.named.cap(now, self.grants);
        let shown: Vec<_> = self.shown.iter().filter_map(|shown| shown.allows(now, self.grants)).collect();
        if self.ceiling == 0 && !shown.is_empty() {
            rate = RATE_MAX;
        }
        for (allowed, left) in shown {
            rate = rate.min(allowed);
            cap = [cap, left].into_iter().flatten().min_by_key(|cap| cap.grants);
        }
        if self.ceiling == 0 && self.row == 0 && cap.is_none() {
            // Without an answer nothing is known: at most as many calls are in flight as were accepted, and two.
            let grants = scaled(self.accepted, 3, 2).saturating_add(2).saturating_sub(self.grants);
            cap = Some(Cap { grants, lasts: TRIAL });
        }
        if self.row > 1 || (self.row == 1 && !self.told) {
            cap = Some(Cap { grants: 1, lasts: hold.plus(TRIAL) });
        }
        Pace { rate: rate.clamp(RATE_MIN, RATE_MAX), burst: ONE_CALL, hold, cut: self.cut, cap }
    }

    fn refuse(&mut self, report: &Report<'_>, refusal: RateRefusal) {
        self.cycle_refused = self.cycle_refused.saturating_add(1);
        self.named.not_counted();
        let current = refusal.cut >= self.cut;
        if let Some(wait) = refusal.wait {
            self.hold_until = self.hold_until.max(report.now.plus(wait.min(HOLD_MAX)));
        }
        if !current {
            return;
        }
        self.explain(report, refusal);
        if self.row == 0 {
            self.first_refused_at = report.now;
            self.refused_rate = self.rate;
            if !self.explained {
                self.rate = self.rate.min(self.cruise());
            }
        }
        self.cut = self.cut.saturating_add(1);
        self.row = self.row.saturating_add(1);
        self.told = refusal.wait.is_some();
        self.refused_at = report.now;
        self.refused_grants = report.grants;
        self.wait = match refusal.wait {
            Some(wait) if self.row < 4 => wait,
            Some(wait) => wait.max(Span::from_micros(self.wait.as_micros().saturating_mul(2))),
            None if self.row == 1 => {
                let gap = rate_of(1, Span::from_micros(self.rate.saturating_mul(2))).max(1_000_000);
                Span::from_micros(gap.max(self.longest_wait.as_micros() / 16)).min(Span::from_mins(1))
            }
            None => Span::from_micros(scaled(self.wait.as_micros(), 3, 2)),
        };
        self.hold_until = self.hold_until.max(report.now.plus(self.wait.min(HOLD_MAX)));
    }

    /// Looks for a quota that the vendor shows or names and that is exhausted.
    fn explain(&mut self, report: &Report<'_>, refusal: RateRefusal) {
        self.explained = false;
        self.names = refusal.named.map_or(Span::ZERO, |(period, _)| period);
        for shown in &mut self.shown {
            if shown.explains(report.now, report.grants) {
                shown.refused();
                self.explained = true;
            }
        }
        if let Some((period, Some(amount))) = refusal.named.filter(|(period, _)| *period <= HOLD_MAX) {
            let named = rate_of(amount, period);
            self.ceiling = if self.ceiling == 0 { named } else { self.ceiling.min(named) };
            self.rate = self.cruise();
            self.target = GRANTS_PER_REFUSAL;
            self.explained = true;
        }
        if let Some((period, amount)) = refusal.named.filter(|(period, _)| *period > HOLD_MAX) {
            self.named.refused(period, amount);
            self.explained = true;
            let poll = Span::from_micros(period.as_micros() / 12).min(HOLD_DAILY_MAX);
            self.hold_until = self.hold_until.max(report.now.plus(poll));
        }
    }

    fn cruise(&self) -> u64 {
        match self.ceiling {
            0 => self.rate / 2,
            ceiling => scaled(ceiling, 10_000_u64.saturating_sub(self.margin), 10_000),
        }
    }

    /// The first accepted call after a refusal ends a cycle.
    fn resume(&mut self, report: &Report<'_>) {
        // A bare refusal leaves it open when the vendor would have accepted again: between the last trial and this one.
        let (resumed, doubt) = if self.told {
            (self.hold_until.min(report.now), Span::ZERO)
        } else {
            let half = Span::from_micros(report.now.since(self.refused_at).as_micros() / 2);
            (self.refused_at.plus(half), half)
        };
        let waited = resumed.since(self.first_refused_at);
        self.longest_wait = waited.max(Span::from_micros(scaled(self.longest_wait.as_micros(), 7, 8)));
        let admitted = self.refused_grants.saturating_sub(self.cycle_grants).saturating_sub(self.cycle_refused);
        let lasted = resumed.since(self.cycle_start).max(self.names);
        // Who says "wait a second" accepts a call every few seconds: a floor, lest other clients' traffic talk us down to nothing.
        let floor = rate_of(1, Span::from_micros(self.longest_wait.max(SECOND).as_micros().saturating_mul(2)));
        let got = rate_of(admitted.max(1), lasted).max(floor).max(RATE_MIN);
        self.row = 0;
        self.raised_at = report.now;
        self.raised_grants = report.grants;
        self.named.resumed(resumed, self.refused_grants);
        if self.explained {
            self.restart(resumed);
            self.rate = if self.ceiling > 0 { self.cruise() } else { self.rate };
            return;
        }
        if self.ceiling > 0 && admitted < self.enough() {
            self.rate = got.max(self.rate / 2).min(self.cruise());
            self.gain = 0;
            return;
        }
        self.learn(admitted, got, lasted, waited, doubt);
        if self.names > Span::ZERO {
            // The vendor says what is exhausted: nothing to find out by probing soon.
            self.target = GRANTS_PER_REFUSAL;
        }
        self.restart(resumed);
        self.rate = self.cruise();
    }

    fn restart(&mut self, resumed: Timestamp) {
        self.cycle_start = resumed;
        self.cycle_grants = self.refused_grants;
        self.cycle_refused = 0;
        self.gain = 0;
    }

    /// Calls after which a cycle says something: its ends are known to about a call and a second.
    fn enough(&self) -> u64 {
        calls_in(self.ceiling, SECOND).saturating_add(CYCLE_MIN)
    }

    fn learn(&mut self, admitted: u64, got: u64, lasted: Span, waited: Span, doubt: Span) {
        let drip = calls_in(got, Span::from_micros(waited.as_micros().saturating_sub(1_000_000))) <= 2;
        // What a bucket gained during the wait may not fit into it. Too high an estimate is soon refused and corrected.
        let busy = Span::from_micros(lasted.as_micros().saturating_sub(waited.as_micros()));
        let most_got = if drip { rate_of(admitted, busy) } else { got };
        let high = (most_got / 2).saturating_add(got / 2);
        let probing = self.gain > 0;
        if self.ceiling == 0 {
            self.ceiling = got;
            self.target = 0;
            return;
        }
        let allowed = calls_in(self.ceiling, lasted);
        let slack = allowed / 50 + calls_in(self.ceiling, SECOND) + 1;
        let most = GRANTS_PER_REFUSAL.saturating_mul(self.cycle_refused);
        let before = self.ceiling;
        let passed = if self.slow > 0 { thousandths(before, 1_000 + self.gain / 2) } else { 0 };
        let higher = admitted > allowed.saturating_add(slack);
        self.ceiling = if higher && drip && self.slow == 0 {
            // More than the ceiling allows: the limit is higher, how much is not known yet.
            got.saturating_mul(2).saturating_add(self.refused_rate) / 3
        } else if self.slow > 0 && self.gain > GAIN_MIN {
            high.max(passed)
        } else if probing && self.target > 0 {
            // The cruise before the probe was not refused.
            high.max(before)
        } else {
            high
        };
        let shorter = Span::from_micros(lasted.as_micros().saturating_sub(doubt.as_micros()));
        let most_got = most_got.max(rate_of(admitted, shorter));
        let least_got = rate_of(admitted, lasted.plus(doubt));
        let within = |down, up| most_got >= thousandths(before, down) && least_got <= thousandths(before, up);
        let learning = self.target == 0;
        let agrees = within(if probing { 920 } else { 800 }, 1_080);
        let slow = std::mem::take(&mut self.slow);
        if learning && drip && within(750, 1_250) && (slow == 0 || !agrees) {
            self.slow = calls_in(self.ceiling, waited.max(SECOND)).saturating_add(2);
            return;
        }
        if !agrees {
            self.target = 0;
            return;
        }
        self.margin = if probing || learning {
            scaled(self.margin, 7, 10).max(50)
        } else if got < thousandths(before, 970) {
            self.margin
        } else {
            self.margin.saturating_add(100).min(1_500)
        };
        self.target = if !probing && got < thousandths(before, 970) { admitted.min(most) } else { most };
    }

    /// Raises the rate if it is time to and the callers use what they have.
    fn raise(&mut self, report: &Report<'_>) {
        let elapsed = report.now.since(self.raised_at);
        let grants = report.grants.saturating_sub(self.raised_grants);
        if elapsed < SECOND || grants < 2 {
            return;
        }
        let used = grants >= thousandths(calls_in(self.rate, elapsed), 750);
        self.raised_at = report.now;
        self.raised_grants = report.grants;
        if !used {
            return;
        }
        if self.ceiling == 0 {
            self.rate = thousandths(self.rate, 1_150).min(RATE_MAX);
            return;
        }
        let admitted = report.grants.saturating_sub(self.cycle_grants).saturating_sub(self.cycle_refused);
        if self.cycle_refused > 0 && admitted < self.enough() {
            return;
        }
        if admitted < self.target {
            self.rate = self.cruise();
            return;
        }
        let lasted = report.now.since(self.cycle_start);
        let allowed = calls_in(self.ceiling, lasted);
        let slack = allowed / 100 + calls_in(self.ceiling, self.longest_wait.max(SECOND)) + 2;
        let beyond = calls_in(thousandths(self.ceiling, self.gain), report.now.since(self.step_at));
        if self.gain > 0 && beyond < self.slow {
            return;
        }
        if self.gain < GAIN_MAX {
            self.gain = self.gain.saturating_mul(2).max(GAIN_MIN);
            self.step_at = report.now;
        } else if admitted > allowed.saturating_add(slack) {
            self.gain = thousandths(self.gain.saturating_add(1_000), 1_150).saturating_sub(1_000);
        }
        self.rate = thousandths(self.ceiling, self.gain.saturating_add(1_000)).min(RATE_MAX);
    }
}
