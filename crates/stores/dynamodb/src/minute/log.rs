//! The log lines of the system that owns these tables, word for word, because dashboards search for them.

use tollway_core::{Action, Operation, Outcome, Reading, Span, TakeOutcome};

use super::counter::minute_key;

/// What the log needs of a take.
#[derive(Clone, Debug)]
pub(super) struct TakeLog {
    /// The take's subject; without one, its policy. Without characters that could end or colour the log line.
    api_type: String,
    amount: u64,
    waits: bool,
    /// Whether the caller requested readings itself.
    readings: bool,
}

impl TakeLog {
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

/// Escapes characters that could forge a log line.
fn one_line(text: &str) -> String {
    let breaks = |sign: char| sign.is_control() || matches!(sign, '\u{2028}' | '\u{2029}');
    let escaped =
        |sign: char| if breaks(sign) { sign.escape_default().to_string() } else { sign.to_string() };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T23: a subject cannot start a log line, nor colour one; printable text stays as it is.
    #[test]
    fn a_subject_cannot_break_the_log_line() {
        assert_eq!(one_line("autotag O'Brien \"é\" \\"), "autotag O'Brien \"é\" \\");
        assert_eq!(one_line("a\r\nRate limit reached"), r"a\r\nRate limit reached");
        assert_eq!(one_line("\u{1b}[31mred\u{9b}m\u{7f}\u{2028}"), r"\u{1b}[31mred\u{9b}m\u{7f}\u{2028}");
    }
}
