//! Raising the rate: the start, and probes above a known ceiling.

use super::super::Report;
use super::super::arithmetic::{calls_in, rate_of, thousandths};
use super::{Auto, RATE_MAX, SECOND, START_RATE};
use crate::Span;

/// Accepted calls that pay for one refusal in the long run: two refusals in a thousand.
pub(super) const GRANTS_PER_REFUSAL: u64 = 500;
/// The first step of a probe above the ceiling, in thousandths. Steps double.
pub(super) const GAIN_MIN: u64 = 40;
/// The last step, as long as nothing shows that the limit is higher.
const GAIN_MAX: u64 = 320;
/// A second's growth, in thousandths: until the first refusal, and of a probe that has found a higher limit.
const GROWTH: u64 = 1_150;
/// The same while a quota in headers bounds the rate: the start need not look for a refusal.
const GROWTH_TOLD: u64 = 1_350;
/// The highest rate over what was accepted lately, in thousandths.
const BEYOND_ACCEPTED: u64 = 1_500;

impl Auto {
    /// Raises the rate if it is time to, at most once a second, however many report: never beyond what accepted calls prove.
    pub(super) fn look(&mut self, report: &Report<'_>) {
        let elapsed = report.now.since(self.looked);
        let grants = report.grants.saturating_sub(self.looked_at);
        if elapsed < SECOND || grants < 2 {
            return;
        }
        (self.looked, self.looked_at) = (report.now, report.grants);
        let proved = self.proved(rate_of(grants, elapsed));
        let told =
            self.headers.iter().filter_map(|shown| shown.allows(report.now, report.grants, report.keep));
        let told = told.map(|(rate, _)| rate).min();
        if let Some(told) = told {
            // Callers cannot use more: when the header says nothing any more, the rate must not jump.
            self.rate = self.rate.min(told.max(proved).max(START_RATE));
        }
        if proved < self.rate || report.failed > report.accepted || self.health.is_failing() {
            return;
        }
        let admitted = self.admitted(report.grants);
        if self.ceiling == 0 {
            let growth = if told.is_some() { GROWTH_TOLD } else { GROWTH };
            self.rate = thousandths(self.rate, growth).min(proved);
        } else if self.refused > 0 && admitted < self.enough() {
            // Slowed down after refusals that said little: first find out more.
        } else if admitted < self.target {
            self.rate = self.cruise();
        } else {
            self.probe(report, admitted, proved);
        }
    }

    /// Whether a higher limit need not be proved first: headers show it, or it was measured and then more than halved.
    fn returns(&self) -> bool {
        self.former > self.ceiling.saturating_mul(2) || (self.former > 0 && self.measured == Span::ZERO)
    }

    /// The highest rate that calls at this rate prove. Reports of several processes come at different times, so it is the
    /// share of calls accepted that counts, of those that ended.
    fn proved(&self, granted: u64) -> u64 {
        thousandths(self.health.accepted_of(granted), BEYOND_ACCEPTED).min(RATE_MAX)
    }

    fn probe(&mut self, report: &Report<'_>, admitted: u64, proved: u64) {
        let beyond = calls_in(thousandths(self.ceiling, self.gain), report.now.since(self.step_at));
        if self.gain > 0 && beyond < self.slow {
            return;
        }
        let allowed = calls_in(self.ceiling, report.now.since(self.start));
        // What a vendor may have saved up for us: as much as comes in during the longest wait.
        let saved = calls_in(self.ceiling, self.longest.max(SECOND)).saturating_add(2);
        if self.gain < GAIN_MAX {
            self.gain = self.gain.saturating_mul(2).max(GAIN_MIN);
            self.step_at = report.now;
        } else if self.returns() || admitted > allowed.saturating_add(allowed / 100).saturating_add(saved) {
            self.gain =
                thousandths(self.gain.saturating_add(1_000), GROWTH).saturating_sub(1_000).min(RATE_MAX);
        }
        self.rate = thousandths(self.ceiling, self.gain.saturating_add(1_000)).min(proved);
        if self.former > 0 && self.rate >= self.former {
            // As fast as before the ceiling fell: a lull is over, and there is nothing new to find out.
            (self.ceiling, self.former, self.target) = (self.former, 0, GRANTS_PER_REFUSAL);
            self.last_at = report.grants;
            self.begin_cycle(report.now);
            self.rate = self.cruise();
        }
    }
}
