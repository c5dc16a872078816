//! Raising the rate: the start, and probes above a known ceiling.

use super::super::Report;
use super::super::arithmetic::{calls_in, thousandths};
use super::{Auto, RATE_MAX, SECOND};

/// Accepted calls that pay for one refusal in the long run: two refusals in a thousand.
pub(super) const GRANTS_PER_REFUSAL: u64 = 500;
/// The first step of a probe above the ceiling, in thousandths. Steps double.
pub(super) const GAIN_MIN: u64 = 40;
/// The last step, as long as nothing shows that the limit is higher.
const GAIN_MAX: u64 = 320;
/// A second's growth, in thousandths: until the first refusal, and of a probe that has found a higher limit.
const GROWTH: u64 = 1_150;
/// The share of the rate that callers must use before it is raised, in thousandths.
const USED: u64 = 750;

impl Auto {
    /// Raises the rate if it is time to, and if callers use what they have. At most once a second, however many report.
    pub(super) fn look(&mut self, report: &Report<'_>) {
        let elapsed = report.now.since(self.looked);
        let grants = report.grants.saturating_sub(self.looked_at);
        if elapsed < SECOND || grants < 2 {
            return;
        }
        (self.looked, self.looked_at) = (report.now, report.grants);
        if grants < thousandths(calls_in(self.rate, elapsed), USED) {
            return;
        }
        let admitted = self.admitted(report.grants);
        if self.ceiling == 0 {
            self.rate = thousandths(self.rate, GROWTH).min(RATE_MAX);
        } else if self.refused > 0 && admitted < self.enough() {
            // Slowed down after refusals that said little: first find out more.
        } else if admitted < self.target {
            self.rate = self.cruise();
        } else {
            self.probe(report, admitted);
        }
    }

    fn probe(&mut self, report: &Report<'_>, admitted: u64) {
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
        } else if admitted > allowed.saturating_add(allowed / 100).saturating_add(saved) {
            self.gain =
                thousandths(self.gain.saturating_add(1_000), GROWTH).saturating_sub(1_000).min(RATE_MAX);
        }
        self.rate = thousandths(self.ceiling, self.gain.saturating_add(1_000)).min(RATE_MAX);
    }
}
