//! What a refusal does at once: hold, cut once, and look for a quota that explains it.

use super::super::arithmetic::{rate_of, scaled};
use super::super::{HOLD_DAILY_MAX, HOLD_MAX, RateRefusal, Report};
use super::shown_quota::ShownQuota;
use super::{Auto, SECOND};
use crate::Span;

/// Refusals in a row from which a told wait is not believed: the quota behind it is a longer one.
const DISBELIEF: u64 = 4;
/// Refusals in a row are counted up to this.
const ROW_MAX: u64 = 999;
/// The first trial after a bare refusal comes after this share of the longest recent wait.
const TRIALS: u64 = 16;
/// The longest time before the first trial.
const FIRST_TRIAL_MAX: Span = Span::from_mins(1);
/// A long quota without a told reset is tried so many times in its period.
const POLLS: u64 = 12;

impl Auto {
    pub(super) fn refuse(&mut self, report: &Report<'_>, refusal: RateRefusal) {
        self.refused = self.refused.saturating_add(1);
        self.named.not_counted();
        self.hold_for(report, refusal.wait.unwrap_or(Span::ZERO).min(HOLD_MAX));
        if refusal.cut < self.cut {
            return;
        }
        self.explain(report, refusal);
        if self.row == 0 {
            (self.first, self.crash) = (report.now, self.rate);
            self.rate = if self.known { self.rate } else { self.rate.min(self.cruise()) };
        }
        self.cut = self.cut.saturating_add(1);
        self.row = self.row.saturating_add(1).min(ROW_MAX);
        self.told = refusal.wait.is_some();
        (self.last, self.last_at) = (report.now, report.grants);
        self.wait = self.next_wait(refusal.wait).min(HOLD_MAX);
        self.hold_for(report, self.wait);
    }

    fn hold_for(&mut self, report: &Report<'_>, wait: Span) {
        self.hold = self.hold.max(report.now.plus(wait));
    }

    /// Refused again after a full wait means a longer quota: wait longer, keep the rate.
    fn next_wait(&self, told: Option<Span>) -> Span {
        let last = self.wait.as_micros();
        match told {
            Some(wait) if self.row < DISBELIEF => wait,
            Some(wait) => wait.max(Span::from_micros(last.saturating_mul(2))),
            None if self.row > 1 => Span::from_micros(scaled(last, 3, 2)),
            None => {
                // Half the time between two calls: on average a bucket has one again.
                let between = scaled(1_000_000, 1_000_000, self.rate.saturating_mul(2));
                let wait = between.max(self.longest.as_micros() / TRIALS);
                Span::from_micros(wait).max(SECOND).min(FIRST_TRIAL_MAX)
            }
        }
    }

    /// Looks for a quota that the vendor names in the refusal. A vendor that fails refuses for other reasons.
    fn explain(&mut self, report: &Report<'_>, refusal: RateRefusal) {
        self.known = self.health.is_failing();
        self.headers.iter_mut().for_each(ShownQuota::refused);
        self.period = Span::ZERO;
        let Some((period, amount)) = refusal.named else { return };
        self.period = period;
        if period > HOLD_MAX {
            self.named.refused(period, amount);
            self.known = true;
            self.hold_for(report, Span::from_micros(period.as_micros() / POLLS).min(HOLD_DAILY_MAX));
        } else if let Some(amount) = amount {
            self.suppose(rate_of(amount, period));
            self.known = true;
        }
    }
}
