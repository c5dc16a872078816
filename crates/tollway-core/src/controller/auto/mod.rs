//! The controller that measures a vendor's limit: `rate = "auto"`.
//!
//! A cycle lasts from one resume after a refusal to the next. At a refusal the vendor's quota is empty, so the calls
//! accepted in a cycle, divided by its length, are the limit itself, whether the vendor counts in windows or fills a bucket.
//! The controller remembers this ceiling, cruises just below it, and probes above it when it has earned a refusal.
//! `docs/decisions/0025-adaptive-controller.md` has the rules and their reasons.

mod cycle;
mod probe;
mod refusal;
mod shown;

use serde::{Deserialize, Serialize};

use self::shown::{Named, Shown};
use super::arithmetic::{scaled, thousandths};
use super::{Cap, ONE_CALL, Pace, Report};
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
    /// A quota that the vendor shows or names explains the refusal: nothing to learn from it.
    known: bool,
    /// The period of the quota that the last refusal named.
    period: Span,
    shown: [Shown; 2],
    named: Named,
    grants: u64,
    /// Calls that have ended, and when the last report came.
    answered: u64,
    reported: Timestamp,
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
            known: false,
            period: Span::ZERO,
            shown: [Shown::default(); 2],
            named: Named::default(),
            grants: 0,
            answered: 0,
            reported: never,
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

    pub(super) fn report(&mut self, report: &Report<'_>) -> Pace {
        if self.start == Timestamp::EPOCH {
            (self.start, self.looked, self.looked_at) = (report.now, report.now, report.grants);
        }
        self.grants = report.grants;
        self.count_answers(report);
        if self.named.advance(report.now, report.grants) {
            // The store held calls back for the rest of a long period: the cycle says nothing.
            self.last_at = report.grants;
            self.begin_cycle(report.now);
        }
        for (shown, quota) in self.shown.iter_mut().zip(report.quotas) {
            shown.observe(report.now.minus(quota.age), self.rate, quota);
        }
        match report.refusal {
            Some(refusal) => self.refuse(report, refusal),
            None if self.row == 0 => self.look(report),
            None if report.accepted > 0 && report.accepted_cut >= self.cut => self.resume(report),
            None => {}
        }
        self.pace(report.now)
    }

    pub(super) fn pace(&self, now: Timestamp) -> Pace {
        let hold = self.hold.since(now);
        let mut rate = self.rate;
        let mut cap = self.named.cap(now, self.grants);
        for (number, shown) in self.shown.iter().enumerate() {
            if let Some((allowed, left)) = shown.allows(now, self.grants) {
                // Nothing was refused yet: the headers alone decide.
                rate = if self.ceiling == 0 && number == 0 { allowed } else { rate.min(allowed) };
                cap = [cap, left].into_iter().flatten().min_by_key(|cap| cap.grants);
            }
        }
        if self.row > 1 || (self.row == 1 && !self.told) {
            cap = Some(Cap { grants: 1, lasts: hold.plus(TRIAL) });
        } else if self.ceiling == 0 && self.row == 0 && cap.is_none() {
            // Slow answers must not let a burst out: what is in flight grows with what was answered.
            let most = scaled(self.answered, 3, 2).saturating_add(2);
            cap = Some(Cap { grants: most.saturating_sub(self.grants), lasts: TRIAL });
        }
        Pace { rate: rate.clamp(RATE_MIN, RATE_MAX), burst: ONE_CALL, hold, cut: self.cut, cap }
    }

    /// Calls that no process reported within the time of a trial count as ended: their process is gone, or reported them to
    /// another controller.
    fn count_answers(&mut self, report: &Report<'_>) {
        if report.now.since(self.reported) >= TRIAL {
            self.answered = self.answered.max(report.grants.saturating_sub(report.answered));
        }
        self.answered = self.answered.saturating_add(report.answered).min(report.grants);
        self.reported = report.now;
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
