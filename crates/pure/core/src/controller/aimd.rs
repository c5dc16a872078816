//! Additive increase, multiplicative decrease: a step up for each accepted call, a factor down for each refusal.
//!
//! The settings and the arithmetic are those of the documented design. Three things differ, because it hangs or collapses
//! without them: at least one call can always be saved up; refusals of calls from before the last cut only hold; the wait
//! a vendor asks for is capped.

use serde::{Deserialize, Serialize};

use super::arithmetic::{scaled, thousandths};
use super::{HOLD_MAX, ONE_CALL, Pace, Report};
use crate::{Span, Timestamp};

/// The shortest and the longest hold when the vendor names none.
const BARE_HOLD: (Span, Span) = (Span::from_secs(1), Span::from_secs(60));

/// The five settings, rates in millionths a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AimdSettings {
    /// The first rate.
    pub initial_rate: u64,
    /// The rate never falls below this.
    pub min_rate: u64,
    /// The rate never rises above this.
    pub max_rate: u64,
    /// Added for each accepted call.
    pub increase_step: u64,
    /// Multiplies the rate at a refusal, in thousandths: 1 to 1,000.
    pub decrease_factor: u64,
}

/// A mistake in [`AimdSettings`].
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AimdError {
    /// The factor is zero or above one.
    #[error("`decrease_factor` must be above 0 and at most 1")]
    DecreaseFactor,
    /// The minimum is zero, or above the maximum.
    #[error("`min_rate` must be above 0 and at most `max_rate`")]
    Rates,
}

crate::debug_as_display!(AimdError);

/// The state of an AIMD controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aimd {
    settings: AimdSettings,
    rate: u64,
    cut: u64,
    hold_until: Timestamp,
}

impl Aimd {
    /// A controller at its initial rate.
    pub fn new(settings: AimdSettings) -> Result<Self, AimdError> {
        if !(1..=1_000).contains(&settings.decrease_factor) {
            return Err(AimdError::DecreaseFactor);
        }
        if settings.min_rate == 0 || settings.min_rate > settings.max_rate {
            return Err(AimdError::Rates);
        }
        let rate = settings.initial_rate.clamp(settings.min_rate, settings.max_rate);
        Ok(Self { settings, rate, cut: 0, hold_until: Timestamp::EPOCH })
    }

    /// This state after so many cuts.
    pub(super) fn after_cuts(self, cut: u64) -> Self {
        Self { cut, ..self }
    }

    /// This state under the settings of another one.
    pub(super) fn under(self, configured: &Self) -> Self {
        let settings = configured.settings;
        Self { rate: self.rate.clamp(settings.min_rate, settings.max_rate), settings, ..self }
    }

    pub(super) fn report(&mut self, report: &Report<'_>) -> Pace {
        let AimdSettings { min_rate, max_rate, increase_step, decrease_factor, .. } = self.settings;
        let steps = increase_step.saturating_mul(report.accepted);
        self.rate = self.rate.saturating_add(steps).min(max_rate);
        if let Some(refusal) = report.refusal {
            if refusal.cut >= self.cut {
                self.rate = thousandths(self.rate, decrease_factor).max(min_rate);
                self.cut = self.cut.saturating_add(1);
            }
            let (shortest, longest) = BARE_HOLD;
            let one_call = Span::from_micros(scaled(ONE_CALL, ONE_CALL, self.rate));
            let wait = refusal.wait.unwrap_or(one_call.clamp(shortest, longest)).min(HOLD_MAX);
            self.hold_until = self.hold_until.max(report.now.plus(wait));
        }
        self.pace(report.now)
    }

    pub(super) fn pace(&self, now: Timestamp) -> Pace {
        // Two seconds' worth, as documented. Less than one call would never be granted.
        let burst = self.rate.saturating_mul(2).max(ONE_CALL);
        Pace { rate: self.rate, burst, hold: self.hold_until.since(now), cut: self.cut, cap: None }
    }
}
