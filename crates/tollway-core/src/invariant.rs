//! What must always hold: seven invariants, each with an id and one predicate.
//!
//! The same predicates judge the model, the tests of every store, and (I1) each grant in production.

use crate::algorithm::Meter;
use crate::decide::{decide, read_all};
use crate::decision::{Decision, Denial, TakeOutcome};
use crate::store::Outcome;
use crate::{Account, Action, Charge, Limit, Operation, PermitId, Span, Terms, Timestamp};

/// The invariants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invariant {
    /// I1: granted costs never exceed a window, bucket or slot count.
    NeverOver,
    /// I2: a denied take changes no meter, in any of its limits.
    DenialsAreFree,
    /// I3: a take is counted in all of its limits, or in none.
    AllOrNothing,
    /// I4: remaining in range; denied until `retry_at`, granted at it; reset exact.
    HonestAnswers,
    /// I5: a take repeated with the same id counts once.
    Once,
    /// I6: a line expires when it is as good as new, not before; of a bucket, at most a unit's refill later.
    LifeSpan,
    /// I7: time only moves forward for a line.
    TimeForward,
}

impl Invariant {
    /// All of them, in order.
    pub const ALL: [Self; 7] = [
        Self::NeverOver,
        Self::DenialsAreFree,
        Self::AllOrNothing,
        Self::HonestAnswers,
        Self::Once,
        Self::LifeSpan,
        Self::TimeForward,
    ];

    /// Its id, as tests, docs and metrics name it.
    pub const fn id(self) -> &'static str {
        match self {
            Self::NeverOver => "I1",
            Self::DenialsAreFree => "I2",
            Self::AllOrNothing => "I3",
            Self::HonestAnswers => "I4",
            Self::Once => "I5",
            Self::LifeSpan => "I6",
            Self::TimeForward => "I7",
        }
    }
}

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} violated: {detail}", .invariant.id())]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// What was seen.
    pub detail: String,
}

/// One operation with the lines before and after it: all that is needed to judge it.
pub struct Transition<'a> {
    /// The operation.
    pub operation: &'a Operation,
    /// The lines before.
    pub before: &'a [Account],
    /// The lines after.
    pub after: &'a [Account],
    /// What was answered.
    pub outcome: &'a Outcome,
    /// The store's clock.
    pub now: Timestamp,
}

impl Transition<'_> {
    /// Judges the transition by every invariant. Lines are compared as those of the policies as they are now.
    pub fn check(&self) -> Result<(), Violation> {
        let (before, after) = (self.fitted(self.before), self.fitted(self.after));
        Transition { before: &before, after: &after, ..*self }.check_fitted(self.only_kept_longer())
    }

    fn check_fitted(&self, only_kept_longer: bool) -> Result<(), Violation> {
        self.time_forward()?;
        match (&self.operation.action, self.outcome) {
            (Action::Take(terms), Outcome::Decided(decision)) => {
                self.check_take(terms, decision, only_kept_longer)?;
            }
            (Action::Peek | Action::Preview(_), _) | (_, Outcome::Refused(_)) => {
                holds(Invariant::DenialsAreFree, self.unchanged(), || "an answer changed a line".into())?;
            }
            _ => {}
        }
        self.life_span()
    }

    fn check_take(
        &self,
        terms: &Terms,
        decision: &Decision,
        only_kept_longer: bool,
    ) -> Result<(), Violation> {
        match &decision.outcome {
            TakeOutcome::Granted(_) if decision.repeated => {
                holds(Invariant::Once, self.unchanged(), || "a repeated take was counted again".into())
            }
            TakeOutcome::Granted(grant) => {
                for (charge, line) in self.enforced(self.after) {
                    holds(Invariant::NeverOver, never_over(charge, line, grant.at), || {
                        format!("{charge:?}: {line:?}")
                    })?;
                }
                self.all_or_nothing(grant.at)
            }
            TakeOutcome::Denied(denial) => {
                let kept = self.unchanged() || only_kept_longer;
                holds(Invariant::DenialsAreFree, kept, || "a denial changed a line".into())?;
                self.honest_denial(terms, denial, decision.now)
            }
        }
    }

    /// Whether lines are as they were, but live longer: a rate was lowered since they were written (I6). Asked of lines as they
    /// are stored: made those of a policy that does not name all of their limits, they say it in several places.
    fn only_kept_longer(&self) -> bool {
        self.before.iter().zip(self.after).all(|(before, after)| {
            after.expires >= before.expires && Account { expires: after.expires, ..before.clone() } == *after
        })
    }

    /// Every charged meter moved by exactly its amount.
    fn all_or_nothing(&self, at: Timestamp) -> Result<(), Violation> {
        for ((charge, before), (_, after)) in self.enforced(self.before).zip(self.enforced(self.after)) {
            let charges = charge.amounts().zip(&*before.meters).zip(&*after.meters);
            for (((limit, amount), was), is) in charges {
                let was = limit.used(was, before.as_of(), at.max(before.as_of()));
                let is = limit.used(is, after.as_of(), at);
                let exact = is == was.saturating_add(amount);
                holds(Invariant::AllOrNothing, exact, || format!("{limit}: {was} and {amount} became {is}"))?;
            }
        }
        Ok(())
    }

    /// Asked again just before the time it named, it says no; at that time, yes.
    fn honest_denial(&self, terms: &Terms, denial: &Denial, decided: Timestamp) -> Result<(), Violation> {
        let asked_at = |at: Timestamp| {
            let mut lines = self.before.to_vec();
            let terms = Terms { readings: terms.readings, ..Terms::now(PermitId(u128::MAX)) };
            decide(&self.operation.charges, &mut lines, &terms, at)
                .is_ok_and(|decision| decision.is_granted())
        };
        let later = denial.retry_at > decided && decided >= self.now;
        holds(Invariant::HonestAnswers, later, || format!("told to come back at {denial:?}"))?;
        if denial.retry_at < Timestamp::MAX {
            let before = denial.retry_at.minus(Span::from_micros(1)).max(decided);
            holds(Invariant::HonestAnswers, !asked_at(before), || {
                format!("granted before {:?}", denial.retry_at)
            })?;
            holds(Invariant::HonestAnswers, asked_at(denial.retry_at), || {
                format!("denied at {:?}", denial.retry_at)
            })?;
        }
        Ok(())
    }

    /// At its expiry a line reads like a new one. A moment before, something still counts: a meter, or what is remembered
    /// besides. Lines that were not written are judged only if a take was denied, which lets a line live longer.
    fn life_span(&self) -> Result<(), Violation> {
        let denied = matches!(self.outcome, Outcome::Decided(decision) if !decision.is_granted());
        let asked = denied && matches!(self.operation.action, Action::Take(_));
        let lines = self.before.iter().zip(self.after);
        for (charge, (before, line)) in self.operation.charges.iter().zip(lines) {
            let written = before != line;
            let forgotten = !(written || asked) || reads_as_new(charge, line, line.expires);
            holds(Invariant::LifeSpan, forgotten, || {
                format!("{:?} would be forgotten at {:?}", line.meters, line.expires)
            })?;
            holds(Invariant::LifeSpan, !written || counts_until_expiry(charge, line), || {
                format!("{:?} would be kept until {:?}", line.meters, line.expires)
            })?;
        }
        Ok(())
    }

    fn time_forward(&self) -> Result<(), Violation> {
        let forward = self.before.iter().zip(self.after).all(|(before, after)| before.seen <= after.seen);
        holds(Invariant::TimeForward, forward, || "a line went back in time".into())
    }

    fn unchanged(&self) -> bool {
        self.before == self.after
    }

    fn fitted(&self, lines: &[Account]) -> Vec<Account> {
        let mut lines = lines.to_vec();
        self.operation.charges.iter().zip(&mut lines).for_each(|(charge, line)| line.fit(&charge.policy));
        lines
    }

    fn enforced<'s>(&'s self, lines: &'s [Account]) -> impl Iterator<Item = (&'s Charge, &'s Account)> {
        self.operation.charges.iter().zip(lines).filter(|(charge, _)| !charge.policy.shadow())
    }
}

/// I1 for one line just after a grant at `at`: no charged meter holds more than its limit.
pub fn never_over(charge: &Charge, line: &Account, at: Timestamp) -> bool {
    let mut charges = charge.amounts().zip(&*line.meters);
    charges.all(|((limit, amount), meter)| amount == 0 || limit.used(meter, at, at) <= limit.capacity())
}

/// Whether nobody could tell a line from a new one at `at`.
fn reads_as_new(charge: &Charge, line: &Account, at: Timestamp) -> bool {
    let at = at.max(line.seen);
    let new = Account { seen: line.seen, ..Account::new(&charge.policy) };
    let read = |line: &Account| read_all(std::slice::from_ref(charge), std::slice::from_ref(line), at);
    let shown = |line: &Account| -> Vec<_> {
        read(line)
            .iter()
            .flat_map(|charge| &charge.readings)
            .map(|reading| (reading.used, reading.remaining, reading.resets_at))
            .collect()
    };
    shown(line) == shown(&new)
}

/// Whether a line still counts just before it expires. Of a bucket it is known when it is surely full: a part of a unit is taken
/// for a whole one, and a microsecond is added for each. A line lives at least until what it has seen, and as long as something
/// is remembered in it.
fn counts_until_expiry(charge: &Charge, line: &Account) -> bool {
    let meters = charge.policy.limits().iter().zip(&*line.meters);
    let rounded_up = |(limit, meter): (&Limit, &Meter)| {
        let units = limit.used(meter, line.as_of(), line.as_of());
        let one = limit.refill().map_or(Span::ZERO, |refill| refill.unit_time());
        one.plus(Span::from_micros(units.saturating_add(1)))
    };
    let before = line.expires.minus(meters.map(rounded_up).max().unwrap_or_default());
    let remembered = line.extra.as_ref().is_some_and(|extra| extra.forgettable_at() > before);
    before < line.as_of() || remembered || !reads_as_new(charge, line, before)
}

fn holds(invariant: Invariant, held: bool, detail: impl FnOnce() -> String) -> Result<(), Violation> {
    if held { Ok(()) } else { Err(Violation { invariant, detail: detail() }) }
}
