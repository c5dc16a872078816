//! The seven invariants, each with an id and one predicate.
//!
//! The same predicates check the model, the tests of every store, and (I1) each grant in production.

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
    /// I6: an account expires when it equals a fresh one, not before; with a bucket, at most a unit's refill later.
    LifeSpan,
    /// I7: time only moves forward for an account.
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
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} violated: {detail}", .invariant.id())]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// What was seen.
    pub detail: String,
}

crate::debug_as_display!(Violation);

/// One operation with the accounts before and after it.
pub struct Transition<'a> {
    /// The operation.
    pub operation: &'a Operation,
    /// The accounts before.
    pub before: &'a [Account],
    /// The accounts after.
    pub after: &'a [Account],
    /// The outcome.
    pub outcome: &'a Outcome,
    /// The store's clock.
    pub now: Timestamp,
}

impl Transition<'_> {
    /// Checks every invariant. Accounts are compared after they are fitted to the current policies.
    pub fn check(&self) -> Result<(), Violation> {
        let (before, after) = (self.fitted(self.before), self.fitted(self.after));
        Transition { before: &before, after: &after, ..*self }.check_fitted(self.only_expiry_extended())
    }

    fn check_fitted(&self, only_expiry_extended: bool) -> Result<(), Violation> {
        self.time_forward()?;
        match (&self.operation.action, self.outcome) {
            (Action::Take(terms), Outcome::Decided(decision)) => {
                self.check_take(terms, decision, only_expiry_extended)?;
            }
            (Action::Peek | Action::Preview(_), _) | (_, Outcome::Refused(_)) => {
                holds(Invariant::DenialsAreFree, self.unchanged(), || {
                    "a read or a refusal changed an account".into()
                })?;
            }
            _ => {}
        }
        self.life_span()
    }

    fn check_take(
        &self,
        terms: &Terms,
        decision: &Decision,
        only_expiry_extended: bool,
    ) -> Result<(), Violation> {
        match &decision.outcome {
            TakeOutcome::Granted(_) if decision.repeated => {
                holds(Invariant::Once, self.unchanged(), || "a repeated take was counted again".into())
            }
            TakeOutcome::Granted(grant) => {
                for (charge, account) in self.enforced(self.after) {
                    holds(Invariant::NeverOver, never_over(charge, account, grant.at), || {
                        format!("{charge:?}: {account:?}")
                    })?;
                }
                self.all_or_nothing(grant.at)
            }
            TakeOutcome::Denied(denial) => {
                let kept = self.unchanged() || only_expiry_extended;
                holds(Invariant::DenialsAreFree, kept, || "a denial changed an account".into())?;
                self.honest_denial(terms, denial, decision.now)
            }
        }
    }

    /// Whether only the expiry of accounts has moved later, because a rate was lowered (I6).
    /// Compares accounts as stored: fitting copies the expiry into orphaned meters too.
    fn only_expiry_extended(&self) -> bool {
        self.before.iter().zip(self.after).all(|(before, after)| {
            after.expires >= before.expires && Account { expires: after.expires, ..before.clone() } == *after
        })
    }

    /// Every debited meter moved by exactly its amount.
    fn all_or_nothing(&self, at: Timestamp) -> Result<(), Violation> {
        for ((charge, before), (_, after)) in self.enforced(self.before).zip(self.enforced(self.after)) {
            let amounts = charge.amounts().zip(&*before.meters).zip(&*after.meters);
            for (((limit, amount), was), is) in amounts {
                let was = limit.used(was, before.as_of(), at.max(before.as_of()));
                let is = limit.used(is, after.as_of(), at);
                let exact = is == was.saturating_add(amount);
                holds(Invariant::AllOrNothing, exact, || format!("{limit}: {was} and {amount} became {is}"))?;
            }
        }
        Ok(())
    }

    /// The same take is denied just before `retry_at` and granted at it.
    fn honest_denial(&self, terms: &Terms, denial: &Denial, decided: Timestamp) -> Result<(), Violation> {
        let granted_at = |at: Timestamp| {
            let mut accounts = self.before.to_vec();
            let terms = Terms { readings: terms.readings, ..Terms::now(PermitId(u128::MAX)) };
            decide(&self.operation.charges, &mut accounts, &terms, at)
                .is_ok_and(|decision| decision.is_granted())
        };
        let later = denial.retry_at > decided && decided >= self.now;
        holds(Invariant::HonestAnswers, later, || {
            format!("retry_at is not later than the decision: {denial:?}")
        })?;
        if denial.retry_at < Timestamp::MAX {
            let before = denial.retry_at.minus(Span::from_micros(1)).max(decided);
            holds(Invariant::HonestAnswers, !granted_at(before), || {
                format!("granted before {:?}", denial.retry_at)
            })?;
            holds(Invariant::HonestAnswers, granted_at(denial.retry_at), || {
                format!("denied at {:?}", denial.retry_at)
            })?;
        }
        Ok(())
    }

    /// At its expiry an account reads like a fresh one. Just before, a meter or a remembered id or refund still counts.
    /// Accounts that were not written are checked only after a denial, which may extend the expiry.
    fn life_span(&self) -> Result<(), Violation> {
        let denied = matches!(self.outcome, Outcome::Decided(decision) if !decision.is_granted());
        let denied_take = denied && matches!(self.operation.action, Action::Take(_));
        let accounts = self.before.iter().zip(self.after);
        for (charge, (before, account)) in self.operation.charges.iter().zip(accounts) {
            let written = before != account;
            let expired = !(written || denied_take) || reads_as_new(charge, account, account.expires);
            holds(Invariant::LifeSpan, expired, || {
                format!("{:?} would expire at {:?}", account.meters, account.expires)
            })?;
            holds(Invariant::LifeSpan, !written || counts_until_expiry(charge, account), || {
                format!("{:?} would be kept until {:?}", account.meters, account.expires)
            })?;
        }
        Ok(())
    }

    fn time_forward(&self) -> Result<(), Violation> {
        let forward = self.before.iter().zip(self.after).all(|(before, after)| before.seen <= after.seen);
        holds(Invariant::TimeForward, forward, || "an account went back in time".into())
    }

    fn unchanged(&self) -> bool {
        self.before == self.after
    }

    fn fitted(&self, accounts: &[Account]) -> Vec<Account> {
        let mut accounts = accounts.to_vec();
        self.operation
            .charges
            .iter()
            .zip(&mut accounts)
            .for_each(|(charge, account)| account.fit(&charge.policy));
        accounts
    }

    fn enforced<'s>(&'s self, accounts: &'s [Account]) -> impl Iterator<Item = (&'s Charge, &'s Account)> {
        self.operation.charges.iter().zip(accounts).filter(|(charge, _)| !charge.policy.shadow())
    }
}

/// I1 for one account just after a grant at `at`: no debited meter exceeds its limit.
pub fn never_over(charge: &Charge, account: &Account, at: Timestamp) -> bool {
    let mut amounts = charge.amounts().zip(&*account.meters);
    amounts
        .all(|((limit, amount), meter)| amount == 0 || limit.used(meter, at, at) <= limit.capacity_of(meter))
}

/// Whether an account at `at` reads like a fresh one.
fn reads_as_new(charge: &Charge, account: &Account, at: Timestamp) -> bool {
    let at = at.max(account.seen);
    let new = Account { seen: account.seen, ..Account::new(&charge.policy) };
    let read = |account: &Account| read_all(std::slice::from_ref(charge), std::slice::from_ref(account), at);
    // What an adaptive limit has learned is forgotten then.
    let kept: Vec<bool> = charge.policy.limits().iter().map(|limit| !limit.is_adaptive()).collect();
    let shown = |account: &Account| -> Vec<_> {
        read(account)
            .iter()
            .flat_map(|charge| charge.readings.iter().zip(&kept).filter(|(_, kept)| **kept))
            .map(|(reading, _)| reading)
            .map(|reading| (reading.used, reading.remaining, reading.resets_at))
            .collect()
    };
    shown(account) == shown(&new)
}

/// Whether an account still counts just before it expires.
///
/// The expiry of a bucket is rounded up: a part of a unit counts as one, plus a microsecond per unit. An account lives at
/// least until `seen`, and as long as it remembers an id or a refund.
fn counts_until_expiry(charge: &Charge, account: &Account) -> bool {
    let meters = charge.policy.limits().iter().zip(&*account.meters);
    let rounded_up = |(limit, meter): (&Limit, &Meter)| {
        let units = limit.used(meter, account.as_of(), account.as_of());
        let one = limit.refill().map_or(Span::ZERO, |refill| refill.unit_time());
        one.plus(Span::from_micros(units.saturating_add(1)))
    };
    let before = account.expires.minus(meters.map(rounded_up).max().unwrap_or_default());
    let remembered = account.extra.as_ref().is_some_and(|extra| extra.expires_at() > before);
    let learned = charge.policy.limits().iter().any(Limit::is_adaptive);
    before < account.as_of() || remembered || learned || !reads_as_new(charge, account, before)
}

fn holds(invariant: Invariant, held: bool, detail: impl FnOnce() -> String) -> Result<(), Violation> {
    if held { Ok(()) } else { Err(Violation { invariant, detail: detail() }) }
}
