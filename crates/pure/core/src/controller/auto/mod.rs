//! The controller that measures a vendor's limit: `rate = "auto"`.
//!
//! A cycle lasts from one resume after a refusal to the next. At a refusal the vendor's quota is empty, so the calls
//! accepted in a cycle, divided by its length, are the limit itself, whether the vendor counts in windows or fills a bucket.
//! The controller remembers this ceiling, cruises just below it, and probes above it when it has earned a refusal.
//! `docs/decisions/0025-adaptive-controller.md` has the rules and their reasons.

mod cycle;
mod health;
mod probe;
mod refusal;
mod shown_quota;

use serde::{Deserialize, Serialize};

use self::health::Health;
use self::probe::GRANTS_PER_REFUSAL;
use self::shown_quota::{Hint, Named, ShownQuota};
use super::arithmetic::{scaled, thousandths};
use super::{Cap, Keep, ONE_CALL, Pace, QuotaLeft, Report};
use crate::{Span, Timestamp};

/// The lowest rate: one call an hour, the longest hold.
const RATE_MIN: u64 = 278;
/// The highest rate: a million calls a second.
const RATE_MAX: u64 = 1_000_000 * ONE_CALL;
/// The first rate, before anything is known: three calls a second.
pub const START_RATE: u64 = 3 * ONE_CALL;
/// How long a trial call may stay without an answer before another one is sent.
const TRIAL: Span = Span::from_secs(60);
/// The unit of waits that vendors tell, and of reports.
const SECOND: Span = Span::from_secs(1);
/// The share of the ceiling that is used while cruising, in thousandths.
const CRUISE: u64 = 995;

/// The state of the controller. It stays below 1 KiB as JSON, which is why its names are short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Auto {
    /// The rate while no quota in a header says otherwise.
    rate: u64,
    /// The measured limit; 0 while it is unknown.
    ceiling: u64,
    cut: u64,
    hold: Timestamp,
    /// When the cycle began, the count of grants then, and refusals since.
    start: Timestamp,
    base: u64,
    refused: u64,
    /// Accepted calls of a cycle before it probes; 0 while the ceiling is being learned.
    target: u64,
    /// How far a probe is above the ceiling, in thousandths; 0 while cruising.
    gain: u64,
    /// A higher ceiling that was measured before; 0 if there is none.
    #[serde(rename = "f")]
    former: u64,
    /// How long the cycle was that measured the ceiling; 0 if headers show another one.
    #[serde(rename = "m")]
    measured: Span,
    step_at: Timestamp,
    /// A slow probe stays at each step until it has sent so many calls beyond the ceiling; 0 for a fast one.
    slow: u64,
    /// When the rate was last looked at, and the count of grants then.
    looked: Timestamp,
    looked_at: u64,
    /// Cuts since the last accepted call: the refusals in a row.
    row: u64,
    first: Timestamp,
    last: Timestamp,
    /// The count of grants and the rate at the last refusal.
    last_at: u64,
    crash: u64,
    told: bool,
    wait: Span,
    longest: Span,
    /// The longest time from a refusal to the next accepted call since the start.
    #[serde(rename = "d")]
    deepest: Span,
    /// A quota that the vendor shows or names explains the refusal: nothing to learn from it.
    known: bool,
    /// The period of the quota that the last refusal named.
    period: Span,
    #[serde(rename = "h")]
    headers: [ShownQuota; 2],
    named: Named,
    #[serde(rename = "e")]
    health: Health,
    /// Calls that have ended, or had the time to, and when the latter were last counted.
    answered: u64,
    #[serde(rename = "o")]
    forgot_at: Timestamp,
}

impl Default for Auto {
    fn default() -> Self {
        let never = Timestamp::EPOCH;
        Self {
            rate: START_RATE,
            ceiling: 0,
            cut: 0,
            hold: never,
            start: never,
            base: 0,
            refused: 0,
            target: 0,
            gain: 0,
            former: 0,
            measured: Span::ZERO,
            step_at: never,
            slow: 0,
            looked: never,
            looked_at: 0,
            row: 0,
            first: never,
            last: never,
            last_at: 0,
            crash: 0,
            told: false,
            wait: Span::ZERO,
            longest: Span::ZERO,
            deepest: Span::ZERO,
            known: false,
            period: Span::ZERO,
            headers: [ShownQuota::default(); 2],
            named: Named::default(),
            health: Health::default(),
            answered: 0,
            forgot_at: never,
        }
    }
}

impl Auto {
    /// This state after so many cuts.
    pub(super) fn after_cuts(self, cut: u64) -> Self {
        Self { cut, ..self }
    }

    /// The measured limit, in millionths of a call a second.
    pub(super) fn ceiling(&self) -> Option<u64> {
        Some(self.ceiling).filter(|ceiling| *ceiling > 0)
    }

    pub(super) fn quotas_left(&self, now: Timestamp, grants: u64) -> Vec<QuotaLeft> {
        self.headers.iter().filter_map(|shown| shown.left(now, grants)).collect()
    }

    pub(super) fn is_failing(&self) -> bool {
        self.health.is_failing()
    }

    /// True also while the refusals of a probe come in: they are those of one cut.
    pub(super) fn is_probing(&self) -> bool {
        self.ceiling > 0 && (self.gain > 0 || self.row > 0)
    }

    pub(super) fn report(&mut self, report: &Report<'_>) -> Pace {
        if self.start == Timestamp::EPOCH {
            (self.start, self.looked, self.looked_at) = (report.now, report.now, report.grants);
        }
        self.count_answers(report);
        let recovered = self.health.observe(report.now, report.answered, report.accepted, report.failed);
        if self.named.advance(report.now, report.grants) || recovered {
            // The store held calls back for the rest of a long period, or the vendor failed: the cycle says nothing.
            self.last_at = report.grants;
            self.begin_cycle(report.now);
        }
        for (place, quota) in report.quotas.iter().enumerate().take(self.headers.len()) {
            match self.headers[place].observe(report.now.minus(quota.age), self.rate, quota) {
                Some(Hint::Rate(rate)) => self.suppose(rate),
                Some(Hint::Changed { from, to }) => self.follow(from, to),
                None => {}
            }
        }
        match report.refusal {
            Some(refusal) => self.refuse(report, refusal),
            None if self.row == 0 => self.look(report),
            None if report.accepted > 0 && report.accepted_cut >= self.cut => self.resume(report),
            None => {}
        }
        self.pace(report.now, report.grants, report.keep)
    }

    /// The pace after so many grants.
    pub(super) fn pace(&self, now: Timestamp, grants: u64, keep: Keep) -> Pace {
        let hold = self.hold.since(now);
        let mut rate = self.health.slowed(self.rate, self.ceiling);
        let mut cap = self.named.cap(now, grants);
        for (allowed, left) in self.headers.iter().filter_map(|shown| shown.allows(now, grants, keep)) {
            rate = rate.min(allowed);
            cap = [cap, left].into_iter().flatten().min_by_key(|cap| cap.grants);
        }
        if self.row > 1 || (self.row == 1 && !self.told) {
            cap = Some(Cap { grants: 1, lasts: hold.plus(TRIAL) });
        } else if self.ceiling == 0 && self.row == 0 && cap.is_none() {
            // Slow answers must not let a burst out: what is in flight grows with what was answered.
            let most = scaled(self.answered, 3, 2).saturating_add(2);
            cap = Some(Cap { grants: most.saturating_sub(grants), lasts: TRIAL });
        }
        Pace { rate: rate.clamp(RATE_MIN, RATE_MAX), burst: ONE_CALL, hold, cut: self.cut, cap }
    }

    /// A call without an answer is forgotten after its own timeout: its process is gone, or reported it to another controller.
    fn count_answers(&mut self, report: &Report<'_>) {
        if report.now.since(self.forgot_at) >= report.timeout {
            self.answered = report.grants.saturating_sub(report.answered);
            self.forgot_at = report.now;
        }
        self.answered = self.answered.saturating_add(report.answered).min(report.grants);
    }

    /// The vendor shows or names a quota of this rate: it may lower the ceiling, never raise it.
    fn suppose(&mut self, most: u64) {
        let most = most.clamp(RATE_MIN, RATE_MAX);
        self.ceiling = if self.ceiling == 0 { most } else { self.ceiling.min(most) };
        self.rate = self.cruise();
        self.target = GRANTS_PER_REFUSAL;
    }

    /// The vendor shows another limit: lower at once, or as far above the ceiling to be tried as fast as a rate may grow.
    fn follow(&mut self, from: u64, to: u64) {
        let ceiling = scaled(self.ceiling, to, from).min(RATE_MAX);
        if ceiling > self.ceiling {
            (self.former, self.target, self.measured) = (ceiling, 0, Span::ZERO);
        } else if ceiling > 0 {
            self.suppose(ceiling);
        }
    }

    /// The rate while nothing is being tried.
    fn cruise(&self) -> u64 {
        match self.ceiling {
            0 => self.rate / 2,
            ceiling => thousandths(ceiling, CRUISE),
        }
    }

    /// Accepted calls of this cycle up to a count of grants.
    fn admitted(&self, grants: u64) -> u64 {
        grants.saturating_sub(self.base).saturating_sub(self.refused)
    }

    fn begin_cycle(&mut self, now: Timestamp) {
        (self.start, self.base, self.refused, self.gain) = (now, self.last_at, 0, 0);
    }
}
