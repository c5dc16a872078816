//! The log lines of the system whose tables these are, word for word, so that dashboards go on finding them.

use tollway_core::{Decision, Outcome, Reading, Span, Verb};

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
    /// Nothing for what is no take.
    pub(super) fn of(operation: &tollway_core::Operation<'_>) -> Option<Self> {
        let (Verb::Take(terms), Some(party)) = (operation.verb, operation.parties.first()) else {
            return None;
        };
        let subject = party.subject.as_str();
        let name = if subject.is_empty() { party.policy.name().as_str() } else { subject };
        Some(Self {
            api_type: one_line(name),
            amount: party.policy.limits().first().map_or(0, |limit| limit.amount()),
            waits: terms.max_wait > Span::ZERO,
            readings: terms.readings,
        })
    }

    /// Says what came of it, and leaves no reading that was not asked for.
    pub(super) fn conclude(&self, outcome: &mut Outcome) {
        let Outcome::Decided(decision) = outcome else { return };
        match decision {
            Decision::Granted(grant) => {
                self.acquired(grant.readings.first(), &minute_key(grant.at));
                if !self.readings {
                    grant.readings.clear();
                }
            }
            Decision::Denied(denial) => {
                if self.waits {
                    self.waiting(denial.retry_after());
                }
                if !self.readings {
                    denial.readings.clear();
                }
            }
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
    fn a_subject_stays_in_its_line() {
        assert_eq!(one_line("autotag O'Brien \"é\" \\"), "autotag O'Brien \"é\" \\");
        assert_eq!(one_line("a\r\nRate limit reached"), r"a\r\nRate limit reached");
        assert_eq!(one_line("\u{1b}[31mred\u{9b}m\u{7f}\u{2028}"), r"\u{1b}[31mred\u{9b}m\u{7f}\u{2028}");
    }
}
