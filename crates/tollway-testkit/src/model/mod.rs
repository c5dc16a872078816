//! What is right, written to be read rather than to be fast.
//!
//! The model keeps a log of everything that was booked and corrected, and derives each answer from it by replaying: a
//! window is the sum of what was booked in it, a bucket a fraction replayed exactly, a time to come back is searched
//! for by asking "does it fit then?". It shares the engine's public types, and none of its arithmetic.
//!
//! What a new rate means: a line is brought along by each change, at the rates of whoever makes it. So the time since the last
//! change counts at the rate of whoever asks, and the time before it stays as it was settled.

mod line;
mod log;
mod refund;
mod take;

use std::collections::BTreeMap;

use line::Line;
use tollway_core::bounds::PARTIES_PER_TAKE_MAX;
use tollway_core::{Decision, LineKey, Operation, Outcome, Party, Refusal, Settled, Timestamp, Verb};

use crate::plain::key_of;

/// The reference against which stores are compared.
#[derive(Clone, Debug, Default)]
pub struct Model {
    lines: BTreeMap<LineKey, Line>,
    /// The newest clock reading ever: what could have been forgotten by then may have been.
    newest: Timestamp,
}

impl Model {
    /// A model of a store that nobody has used.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a right store answers to the operation when its clock shows `clock`.
    pub fn apply(&mut self, operation: &Operation<'_>, clock: Timestamp) -> Outcome {
        self.newest = self.newest.max(clock);
        let parties = operation.parties;
        if let Err(refusal) = check_parties(parties) {
            return Outcome::Refused(refusal);
        }
        // Worked out on copies, so that whatever was not granted cannot have left a trace.
        let mut lines: Vec<Line> = parties.iter().map(|party| self.line_of(party)).collect();
        let (outcome, changed) = apply(parties, &mut lines, &operation.verb, clock)
            .unwrap_or_else(|refusal| (Outcome::Refused(refusal), false));
        if changed {
            self.lines.extend(parties.iter().map(key_of).zip(lines));
        } else if let (Verb::Take(_), Outcome::Decided(Decision::Denied(_))) = (&operation.verb, &outcome) {
            self.note_denial(parties);
        }
        outcome
    }

    /// Whether the answer may depend on when the store forgets a line that is as good as new.
    ///
    /// It may forget early or late. That shows when the clock then goes back, when a permit comes back to a line
    /// that could have undone its booking or known its reset, or when somebody asks at a lower rate, by which the line would
    /// not be as good as new. Both answers are right, so the suite does not ask.
    pub fn unclear(&self, operation: &Operation<'_>, clock: Timestamp) -> bool {
        let newest = self.newest.max(clock);
        let refunded = match operation.verb {
            Verb::Settle { booking, .. } | Verb::Return { booking, .. } => Some(booking),
            _ => None,
        };
        operation.parties.iter().any(|party| {
            let Some(line) = self.lines.get(&key_of(party)) else { return false };
            let went_back = clock < line.seen || !line.good_as_new(clock);
            let could_undo = refunded.is_some() && line.undo.is_some();
            let from_before_reset = refunded.is_some_and(|booking| booking.granted_at <= line.epoch);
            (line.good_as_new(newest) && (went_back || could_undo))
                || line.counts_again(party.policy, clock, newest)
                || (from_before_reset && line.epoch_matters_until <= newest)
        })
    }

    fn note_denial(&mut self, parties: &[Party<'_>]) {
        for party in parties {
            if let Some(line) = self.lines.get_mut(&key_of(party)) {
                line.denied(party.policy);
            }
        }
    }

    fn line_of(&self, party: &Party<'_>) -> Line {
        let mut line = self.lines.get(&key_of(party)).cloned().unwrap_or_default();
        line.fit(party.policy);
        line
    }
}

/// The outcome, and whether anything was booked or corrected.
fn apply(
    parties: &[Party<'_>],
    lines: &mut [Line],
    verb: &Verb<'_>,
    clock: Timestamp,
) -> Result<(Outcome, bool), Refusal> {
    let now = lines.iter().map(|line| line.seen).fold(clock, Timestamp::max);
    Ok(match verb {
        Verb::Take(terms) => {
            let (decision, changed) = take::take(parties, lines, terms, now)?;
            (Outcome::Decided(decision), changed)
        }
        Verb::Preview(terms) => (Outcome::Decided(take::take(parties, lines, terms, now)?.0), false),
        Verb::Begin(booking, terms) => {
            let (begun, changed) = take::begin(parties, lines, booking, terms, now)?;
            (Outcome::Begun(begun), changed)
        }
        Verb::Settle { booking, actual, remember } => {
            let settled = refund::settle(parties, lines, booking, actual, *remember, now)?;
            (Outcome::Settled(settled), corrects(settled))
        }
        Verb::Return { booking, remember } => {
            let settled = refund::give_back(parties, lines, booking, *remember, now);
            (Outcome::Settled(settled), corrects(settled))
        }
        Verb::Done(permit) => {
            let held = refund::done(parties, lines, *permit, clock);
            (Outcome::Done(held), held)
        }
        Verb::Renew(permit) => {
            let held = refund::renew(parties, lines, *permit, now);
            (Outcome::Renewed(held), held)
        }
        Verb::Peek => (Outcome::Peeked(take::read_all(parties, lines, now)), false),
        Verb::Reset => {
            parties.iter().zip(lines).for_each(|(party, line)| line.reset(party.policy, clock));
            (Outcome::Reset, true)
        }
    })
}

/// Whether a correction has left a trace.
fn corrects(settled: Settled) -> bool {
    matches!(settled, Settled::Whole | Settled::Partly)
}

fn check_parties(parties: &[Party<'_>]) -> Result<(), Refusal> {
    if parties.is_empty() || parties.len() > PARTIES_PER_TAKE_MAX {
        return Err(Refusal::PartyCount(parties.len()));
    }
    for (index, party) in parties.iter().enumerate() {
        if parties[index + 1..].iter().any(|other| key_of(other) == key_of(party)) {
            let LineKey { policy, subject } = key_of(party);
            return Err(Refusal::SamePartyTwice { policy, subject });
        }
    }
    Ok(())
}
