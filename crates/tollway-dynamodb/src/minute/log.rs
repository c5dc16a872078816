//! The log lines of the system whose tables these are, word for word, so that dashboards go on finding them.

use tollway_core::{Action, Operation, Outcome, Reading, Span, TakeOutcome};

use super::counter::minute_key;

/// What a take is called in the log, and whether its caller waits.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The take's subject; without one, its policy. Without signs that could end the line or colour it.
    api_type: String,
    amount: u64,
    waits: bool,
    /// Whether the caller asked for readings itself.
    readings: bool,
}

impl Asked {
    /// None unless the operation is a take.
    pub(super) fn of(operation: &Operation) -> Option<Self> {
        let (Action::Take(terms), Some(charge)) = (&operation.action, operation.charges.first()) else {
            return None;
        };
        let subject = charge.subject.as_str();
        let name = if subject.is_empty() { charge.policy.name().as_str() } else { subject };
        Some(Self {
            api_type: one_line(name),
            amount: charge.policy.limits().first().map_or(0, |limit| limit.amount()),
            waits: terms.max_wait > Span::ZERO,
            readings: terms.readings,
        })
    }

    /// Logs what came of it, and drops readings that the caller did not ask for.
    pub(super) fn conclude(&self, outcome: &mut Outcome) {
        let Outcome::Decided(decision) = outcome else { return };
        match &decision.outcome {
            TakeOutcome::Granted(booking) => {
                let reading = decision.charges.first().and_then(|charge| charge.readings.first());
                self.acquired(reading, &minute_key(booking.at));
            }
            TakeOutcome::Denied(_) if self.waits => self.waiting(decision.wait()),
            TakeOutcome::Denied(_) => {}
        }
        if !self.readings {
            decision.charges.clear();
        }
    }

    fn acquired(&self, reading: Option<&Reading>, minute_key: &str) {
        let count = reading.map_or(0, |reading| reading.used);
        let Self { api_type, amount, .. } = self;
        tracing::info!("Rate limit token acquired for {api_type}: {count}/{amount} in minute {minute_key}");
    }

    fn waiting(&self, wait: Span) {
        let seconds = wait.as_micros().div_ceil(1_000_000);
        tracing::info!("Rate limit reached ({}/min), waiting for next minute window...", self.amount);
        tracing::info!("Waiting {seconds} seconds for next minute window...");
    }
}

/// The text as it is, but for what a caller could forge lines with (T23).
fn one_line(text: &str) -> String {
    let breaks = |sign: char| sign.is_control() || matches!(sign, '\u{2028}' | '\u{2029}');
    let escaped =
        |sign: char| if breaks(sign) { sign.escape_default().to_string() } else { sign.to_string() };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T23: a subject cannot make a line of its own, nor colour one; what people write stays as they wrote it.
    #[test]
    fn a_subject_cannot_break_the_log_line() {
        assert_eq!(one_line("autotag O'Brien \"é\" \\"), "autotag O'Brien \"é\" \\");
        assert_eq!(one_line("a\r\nRate limit reached"), r"a\r\nRate limit reached");
        assert_eq!(one_line("\u{1b}[31mred\u{9b}m\u{7f}\u{2028}"), r"\u{1b}[31mred\u{9b}m\u{7f}\u{2028}");
    }
}
