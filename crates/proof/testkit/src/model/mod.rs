//! The reference model: simple instead of fast.
//!
//! The model logs every booking and correction and computes each answer by replaying the log. A window is the sum of its
//! bookings, a bucket an exact fraction, and `retry_at` is searched for by trying times. It shares the engine's public
//! types and none of its arithmetic.
//!
//! When a rate changes, the time before the account's last change counts at the old rate, and the time since then at the
//! rate of the current operation.

mod account;
mod feedback;
mod log;
mod refund;
mod take;

use std::collections::BTreeMap;

use account::Account;
use tollway_core::bounds::CHARGES_PER_TAKE_MAX;
use tollway_core::{AccountKey, Action, Charge, Operation, Outcome, Refusal, Settled, Timestamp};

/// The reference against which stores are compared.
#[derive(Clone, Debug, Default)]
pub struct Model {
    accounts: BTreeMap<AccountKey, Account>,
    /// The newest clock reading: accounts that expired by then may have been dropped.
    newest: Timestamp,
}

impl Model {
    /// A model of an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The answer of a correct store to the operation at the clock reading `clock`.
    pub fn apply(&mut self, operation: &Operation, clock: Timestamp) -> Outcome {
        self.newest = self.newest.max(clock);
        let charges = &*operation.charges;
        if let Err(refusal) = check_charges(charges) {
            return Outcome::Refused(refusal);
        }
        // Works on copies, so that a denied operation leaves no trace.
        let mut accounts: Vec<Account> = charges.iter().map(|charge| self.account_of(charge)).collect();
        let (outcome, changed) = apply(charges, &mut accounts, &operation.action, clock)
            .unwrap_or_else(|refusal| (Outcome::Refused(refusal), false));
        if changed {
            self.accounts.extend(charges.iter().map(Charge::key).zip(accounts));
        } else if let (Action::Take(_), Outcome::Decided(decision)) = (&operation.action, &outcome)
            && !decision.is_granted()
        {
            self.note_denial(charges);
        }
        outcome
    }

    /// Whether the answer may depend on when the store drops an expired account.
    ///
    /// The store may drop it at once or later. The difference is visible if the clock then goes back, if a returned permit
    /// could have been undone or was granted before a reset, if the rate is lower now, or if something was learned. Both answers are correct, so the
    /// suite skips such operations.
    pub fn unclear(&self, operation: &Operation, clock: Timestamp) -> bool {
        let newest = self.newest.max(clock);
        let refunded = match &operation.action {
            Action::Settle { booking, .. } | Action::Return { booking, .. } => Some(*booking),
            _ => None,
        };
        operation.charges.iter().any(|charge| {
            let Some(account) = self.accounts.get(&charge.key()) else { return false };
            let went_back = clock < account.seen || !account.is_fresh(clock);
            let could_undo = refunded.is_some() && account.undo.is_some();
            let from_before_reset = refunded.is_some_and(|booking| booking.granted_at <= account.reset_at);
            (account.is_fresh(newest) && (went_back || could_undo || account.has_learned()))
                || account.may_count_again(&charge.policy, clock, newest)
                || (from_before_reset && account.reset_expires <= newest)
        })
    }

    fn note_denial(&mut self, charges: &[Charge]) {
        for charge in charges {
            if let Some(account) = self.accounts.get_mut(&charge.key()) {
                account.denied(&charge.policy);
            }
        }
    }

    fn account_of(&self, charge: &Charge) -> Account {
        let mut account = self.accounts.get(&charge.key()).cloned().unwrap_or_default();
        account.fit(&charge.policy);
        account
    }
}

/// The outcome, and whether anything was booked or corrected.
fn apply(
    charges: &[Charge],
    accounts: &mut [Account],
    action: &Action,
    clock: Timestamp,
) -> Result<(Outcome, bool), Refusal> {
    let now = accounts.iter().map(|account| account.seen).fold(clock, Timestamp::max);
    Ok(match action {
        Action::Take(terms) => {
            let (decision, changed) = take::take(charges, accounts, terms, now)?;
            (Outcome::Decided(decision), changed)
        }
        Action::Preview(terms) => (Outcome::Decided(take::take(charges, accounts, terms, now)?.0), false),
        Action::Begin(booking, terms) => {
            let (begun, changed) = take::begin(charges, accounts, booking, terms, now)?;
            (Outcome::Begun(begun), changed)
        }
        Action::Settle { booking, actual, remember } => {
            let settled = refund::settle(charges, accounts, booking, actual, *remember, now)?;
            (Outcome::Settled(settled), corrects(settled))
        }
        Action::Return { booking, remember } => {
            let settled = refund::give_back(charges, accounts, booking, *remember, now);
            (Outcome::Settled(settled), corrects(settled))
        }
        Action::Done(permit) => {
            let held = refund::done(charges, accounts, *permit, clock);
            (Outcome::Done(held), held)
        }
        Action::Renew(permit) => {
            let held = refund::renew(charges, accounts, *permit, now);
            (Outcome::Renewed(held), held)
        }
        Action::Peek => (Outcome::Peeked(take::read_all(charges, accounts, now)), false),
        Action::Reset => {
            charges.iter().zip(accounts).for_each(|(charge, account)| account.reset(&charge.policy, clock));
            (Outcome::Reset, true)
        }
        Action::Feedback(said) => feedback::learn(charges, accounts, said, now)?,
    })
}

/// Whether a correction has left a trace.
fn corrects(settled: Settled) -> bool {
    matches!(settled, Settled::Whole | Settled::Partly)
}

fn check_charges(charges: &[Charge]) -> Result<(), Refusal> {
    if charges.is_empty() || charges.len() > CHARGES_PER_TAKE_MAX {
        return Err(Refusal::ChargeCount(charges.len()));
    }
    for (index, charge) in charges.iter().enumerate() {
        if charges[index + 1..].iter().any(|other| other.key() == charge.key()) {
            let AccountKey { policy, subject } = charge.key();
            return Err(Refusal::SameChargeTwice { policy, subject });
        }
    }
    Ok(())
}
