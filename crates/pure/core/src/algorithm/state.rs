//! A meter and its state, and the rule for a meter whose kind is not that of its limit.
//!
//! # A meter of another kind
//!
//! Each algorithm counts in one kind of state. A limit's identity names its algorithm, so a stored meter has the kind of
//! its limit unless the stored bytes are damaged or two identities collide. Such a meter never grants and never panics:
//!
//! - `Account::fit` replaces it by a fresh one. Every operation fits its accounts first.
//! - Until then it has no room: [`Limit::earliest`] returns [`NO_ROOM`], a reading shows nothing left, a debit is
//!   reported as a violation of I1, and nothing else changes it.

use serde::{Deserialize, Serialize};

use super::{Adaptive, Bucket, Debited, Sliding, Slot, Window};
use crate::{Algorithm, Limit, Timestamp};

/// When a meter of another kind has room: never.
pub(super) const NO_ROOM: Timestamp = Timestamp::MAX;

/// The result of a debit of a meter of another kind: nothing changes, and I1 does not hold.
pub(super) const NOT_DEBITED: Debited =
    Debited { good_until: Timestamp::EPOCH, expires: Timestamp::EPOCH, holds: false };

/// The state of one limit for one subject, as of its account's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// The [`Limit::identity`] of its limit.
    pub identity: u32,
    /// Its state.
    pub state: State,
}

/// The state of a meter, by algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Of `window` and `from first call`.
    Window(Window),
    /// Of `sliding`.
    Sliding(Sliding),
    /// Of `bucket` and `paced`.
    Bucket(Bucket),
    /// Of `adaptive`.
    Adaptive(Box<Adaptive>),
    /// Of `concurrency`.
    Slots(Vec<Slot>),
}

impl Limit {
    /// A fresh meter: nothing taken.
    pub(crate) fn fresh_meter(&self) -> Meter {
        let state = match self.algorithm() {
            Algorithm::Window(_) | Algorithm::FromFirstCall(_) => State::Window(Window::default()),
            Algorithm::Sliding(_) => State::Sliding(Sliding::default()),
            Algorithm::Bucket { .. } | Algorithm::Paced(_) => State::Bucket(Bucket::default()),
            Algorithm::Adaptive(_) => State::Adaptive(Box::default()),
            Algorithm::Concurrency { .. } => State::Slots(Vec::new()),
        };
        Meter { identity: self.identity(), state }
    }

    /// Whether a meter has this limit's identity and kind.
    #[inline]
    pub(crate) fn owns(&self, meter: &Meter) -> bool {
        let kind = match self.algorithm() {
            Algorithm::Window(_) | Algorithm::FromFirstCall(_) => meter.state.window().is_some(),
            Algorithm::Sliding(_) => meter.state.sliding().is_some(),
            Algorithm::Bucket { .. } | Algorithm::Paced(_) => meter.state.bucket().is_some(),
            Algorithm::Adaptive(_) => meter.state.adaptive().is_some(),
            Algorithm::Concurrency { .. } => meter.state.slots().is_some(),
        };
        kind && meter.identity == self.identity()
    }
}

impl State {
    /// Whether it is a window or a bucket, which fit a packed account.
    pub(crate) fn packs(&self) -> bool {
        matches!(self, Self::Window(_) | Self::Bucket(_))
    }
}

/// Each accessor returns `None` for a state of another kind.
impl State {
    #[inline]
    pub(super) fn window(&self) -> Option<&Window> {
        match self {
            Self::Window(window) => Some(window),
            Self::Sliding(_) | Self::Bucket(_) | Self::Adaptive(_) | Self::Slots(_) => None,
        }
    }

    #[inline]
    pub(super) fn window_mut(&mut self) -> Option<&mut Window> {
        match self {
            Self::Window(window) => Some(window),
            Self::Sliding(_) | Self::Bucket(_) | Self::Adaptive(_) | Self::Slots(_) => None,
        }
    }

    #[inline]
    pub(super) fn sliding(&self) -> Option<&Sliding> {
        match self {
            Self::Sliding(sliding) => Some(sliding),
            Self::Window(_) | Self::Bucket(_) | Self::Adaptive(_) | Self::Slots(_) => None,
        }
    }

    #[inline]
    pub(super) fn sliding_mut(&mut self) -> Option<&mut Sliding> {
        match self {
            Self::Sliding(sliding) => Some(sliding),
            Self::Window(_) | Self::Bucket(_) | Self::Adaptive(_) | Self::Slots(_) => None,
        }
    }

    #[inline]
    pub(super) fn bucket(&self) -> Option<&Bucket> {
        match self {
            Self::Bucket(bucket) => Some(bucket),
            Self::Window(_) | Self::Sliding(_) | Self::Adaptive(_) | Self::Slots(_) => None,
        }
    }

    #[inline]
    pub(super) fn bucket_mut(&mut self) -> Option<&mut Bucket> {
        match self {
            Self::Bucket(bucket) => Some(bucket),
            Self::Window(_) | Self::Sliding(_) | Self::Adaptive(_) | Self::Slots(_) => None,
        }
    }

    pub(crate) fn adaptive(&self) -> Option<&Adaptive> {
        match self {
            Self::Adaptive(adaptive) => Some(adaptive),
            Self::Window(_) | Self::Sliding(_) | Self::Bucket(_) | Self::Slots(_) => None,
        }
    }

    pub(crate) fn adaptive_mut(&mut self) -> Option<&mut Adaptive> {
        match self {
            Self::Adaptive(adaptive) => Some(adaptive),
            Self::Window(_) | Self::Sliding(_) | Self::Bucket(_) | Self::Slots(_) => None,
        }
    }

    #[inline]
    pub(super) fn slots(&self) -> Option<&[Slot]> {
        match self {
            Self::Slots(slots) => Some(slots),
            Self::Window(_) | Self::Sliding(_) | Self::Bucket(_) | Self::Adaptive(_) => None,
        }
    }

    #[inline]
    pub(super) fn slots_mut(&mut self) -> Option<&mut Vec<Slot>> {
        match self {
            Self::Slots(slots) => Some(slots),
            Self::Window(_) | Self::Sliding(_) | Self::Bucket(_) | Self::Adaptive(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Advance, Correction};
    use crate::store::Outcome;
    use crate::{
        Account, Action, Charge, Operation, Packed, PackedSix, PackedSixteen, PermitId, Policy, Span,
        Subject, Terms, apply, decide_fast,
    };
    use std::sync::Arc;

    const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);
    const PERMIT: PermitId = PermitId(7);
    const LIMITS: [&str; 7] = [
        "5 / minute",
        "5 / minute from first call",
        "5 / minute sliding",
        "5 / minute bucket",
        "1 / minute paced",
        "1 / minute adaptive",
        "5 concurrent",
    ];

    /// Every limit with a meter of its identity and of each kind that is not its own.
    fn pairings() -> impl Iterator<Item = (Policy, Account)> {
        let kinds = || LIMITS.iter().map(|text| Policy::new("p", [*text]).unwrap());
        kinds().flat_map(move |policy| {
            let stored = kinds().map(|other| other.limits()[0].fresh_meter().state);
            let accounts: Vec<(Policy, Account)> = stored
                .map(|state| Meter { identity: policy.limits()[0].identity(), state })
                .filter(|meter| !policy.limits()[0].owns(meter))
                .map(|meter| {
                    (policy.clone(), Account { meters: [meter].into_iter().collect(), ..Account::default() })
                })
                .collect();
            accounts
        })
    }

    #[test]
    fn a_meter_of_another_kind_denies_until_it_is_fitted() {
        let mut seen = 0;
        for (policy, mut account) in pairings() {
            let before = account.clone();
            let (limit, meter) = (&policy.limits()[0], &mut account.meters[0]);
            assert_eq!(limit.earliest(meter, 1, NOW, NOW, Span::ZERO), NO_ROOM, "{limit} {meter:?}");
            assert_eq!(limit.read(meter, NOW, NOW).remaining, 0, "{limit} {meter:?}");
            let span = Advance { as_of: NOW, at: NOW, edge: Span::ZERO };
            assert!(!limit.debit(meter, 1, span, PERMIT).holds, "{limit} {meter:?}");
            let correction = Correction { booked_at: NOW, reserved: 1, actual: 0 };
            assert_eq!(limit.settle(meter, correction, NOW), limit.has_slots(), "{limit} {meter:?}");
            limit.advance(meter, NOW, NOW.plus(Span::from_days(1)));
            limit.renew(meter, PERMIT, NOW);
            limit.free(meter, PERMIT);
            assert!(!limit.holds_slot(meter, PERMIT, NOW));
            assert_eq!(account, before, "{policy:?}");
            assert_eq!(decide_fast(&policy, policy.default_cost(), &mut account, PERMIT, NOW), None);
            assert_eq!(account, before, "{policy:?}");
            seen += 1;
        }
        assert_eq!(seen, 2 * 5 + 6 + 2 * 5 + 6 + 6, "every limit with every kind but its own");
    }

    #[test]
    fn a_packed_meter_of_another_kind_grants_nothing() {
        for (policy, account) in pairings() {
            let cost = policy.default_cost();
            if let Some(mut packed) = Packed::pack(&account) {
                assert_eq!(packed.decide_fast(&policy, cost, NOW), None, "{policy:?}");
                assert_eq!(Packed::pack(&account), Some(packed));
            }
            if let Some(mut packed) = PackedSix::pack(&account, policy.key()) {
                assert_eq!(packed.decide_fast(policy.key(), &policy, cost, NOW), None, "{policy:?}");
            }
            if let Some(mut packed) = PackedSixteen::pack(&account, policy.key()) {
                assert_eq!(packed.decide_fast(policy.key(), &policy, cost, NOW), None, "{policy:?}");
            }
        }
    }

    #[test]
    fn an_operation_replaces_a_meter_of_another_kind_by_a_fresh_one() {
        for (policy, mut account) in pairings() {
            let (mut new, limit) = (Account::new(&policy), policy.limits()[0].clone());
            let charge = Charge::new(Arc::new(policy), Subject::SHARED);
            // One more than fits a fresh meter: the last is denied.
            for take in 0..=limit.capacity() {
                let operation = Operation::one(charge.clone(), Action::Take(Terms::now(PERMIT)));
                let wanted = apply(&operation, std::slice::from_mut(&mut new), NOW);
                let got = apply(&operation, std::slice::from_mut(&mut account), NOW);
                assert_eq!(got, wanted, "{limit}");
                let granted = matches!(&got.outcome, Outcome::Decided(decision) if decision.is_granted());
                assert_eq!(granted, take < limit.capacity(), "{limit}");
                assert_eq!(account, new, "{limit}");
            }
        }
    }
}
