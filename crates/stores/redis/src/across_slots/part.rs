//! The part of an operation whose accounts are in one slot.

use smallvec::SmallVec;
use tollway_core::{Action, Charge, Charges, Decision, Operation};

/// The charges of an operation whose accounts are in one slot.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) charges: Charges,
    /// Where they are among the operation's charges.
    indexes: SmallVec<[usize; 4]>,
}

impl Part {
    /// The parts of an operation, in the order in which they are taken: by key, so that processes which want the same
    /// accounts do not take them crosswise; those that only shadow the take last, because they cannot deny it.
    pub(super) fn of(charges: &[Charge]) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        for (index, charge) in charges.iter().enumerate() {
            let same =
                |part: &&mut Self| part.first().is_some_and(|first| first.slot_tag() == charge.slot_tag());
            match parts.iter_mut().find(same) {
                Some(part) => {
                    part.charges.push(charge.clone());
                    part.indexes.push(index);
                }
                None => {
                    let indexes = SmallVec::from_slice(&[index]);
                    parts.push(Self { charges: Charges::from_buf([charge.clone()]), indexes });
                }
            }
        }
        let least = |part: &Self| part.charges.iter().map(Charge::key).min();
        parts.sort_by_cached_key(|part| (!part.may_deny(), least(part)));
        parts
    }

    fn first(&self) -> Option<&Charge> {
        self.charges.first()
    }

    /// Whether a policy in it is enforced.
    pub(super) fn may_deny(&self) -> bool {
        self.charges.iter().any(|charge| !charge.policy.shadow())
    }

    pub(super) fn holds_slots(&self) -> bool {
        self.charges.iter().any(|charge| !charge.policy.shadow() && charge.policy.holds_slots())
    }

    /// Where the charge at this index of the part is among the operation's.
    pub(super) fn whole_index(&self, index: usize) -> usize {
        self.indexes.get(index).copied().unwrap_or(index)
    }

    /// This action on the part's accounts.
    pub(super) fn operation(&self, action: &Action) -> Operation {
        let action = match action {
            Action::Settle { booking, actual, remember } => {
                let actual = self.indexes.iter().filter_map(|index| actual.get(*index).cloned()).collect();
                Action::Settle { booking: *booking, actual, remember: *remember }
            }
            action => action.clone(),
        };
        Operation { charges: self.charges.clone(), action }
    }

    /// Which of the operation's charges are shadows that would have denied, as bits.
    pub(super) fn would_deny(&self, decision: &Decision) -> u16 {
        let bit = |index: &usize| {
            decision.would_deny_of(*index).then(|| u32::try_from(self.whole_index(*index)).ok()).flatten()
        };
        let bits = (0..self.charges.len()).filter_map(|index| bit(&index));
        bits.filter_map(|bit| 1u16.checked_shl(bit)).fold(0, |all, bit| all | bit)
    }

    /// The charges that a granted take of this part was charged for: shadows that would have denied were not.
    pub(super) fn charged(&self, decision: &Decision) -> Charges {
        let charges = self.charges.iter().enumerate();
        charges
            .filter(|(index, _)| !decision.would_deny_of(*index))
            .map(|(_, charge)| charge.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollway_core::{Policy, Subject};

    use super::*;

    fn charge(policy: &str, shadow: bool, subject: &str) -> Charge {
        let policy = Policy::new(policy, ["1 / day"]).unwrap().with_shadow(shadow);
        Charge::new(Arc::new(policy), Subject::new(subject).unwrap())
    }

    #[test]
    fn parts_are_in_key_order_and_shadows_last() {
        let charges = [
            charge("a", true, "s"),
            charge("c", false, "x"),
            charge("b", false, ""),
            charge("a", false, "x"),
        ];
        let parts = Part::of(&charges);
        let indexes: Vec<&[usize]> = parts.iter().map(|part| &*part.indexes).collect();
        assert_eq!(indexes, [&[1, 3][..], &[2], &[0]]);
    }
}
