//! Which account subjects share that have none of their own and get none: 1,024 for each policy.
//!
//! Such an account is made even in a full server, since there are few: with a kilobyte each, the largest that an account
//! of a few limits is, a megabyte for each policy. On a Cluster a take is decided in one step only where its keys are in
//! one slot, so there each slot has its own.

use std::sync::LazyLock;

use tollway_core::{Charge, Fingerprint, Policy, Span, Subject};

use crate::keys::Keys;

/// How many accounts the subjects without one share, for each policy. As in memory.
pub(crate) const SHARED_ACCOUNTS: u32 = 1_024;

/// The slots of a Cluster.
const SLOTS: usize = 16_384;

/// Of which slot the shared account must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slots {
    /// One server, or keys that all lie in one slot.
    One,
    /// The slot of the subject's own account, on a Cluster.
    OfAccount,
}

/// The number of the account that the subject of this charge shares: the same in every process.
pub(crate) fn number(charge: &Charge, slots: Slots) -> u32 {
    match slots {
        Slots::One => number_on_one_server(&charge.subject),
        Slots::OfAccount => {
            let slot = slot(Keys::tag(charge).as_bytes());
            NUMBER_IN_SLOT.get(slot).copied().unwrap_or_default()
        }
    }
}

/// The same where all keys are on one server.
pub(crate) fn number_on_one_server(subject: &Subject) -> u32 {
    Fingerprint::new().text(subject.as_str()).half() % SHARED_ACCOUNTS
}

/// How long what an account of this policy holds can matter.
pub(crate) fn lifetime(policy: &Policy) -> Span {
    policy.limits().iter().map(|limit| limit.longest_memory()).max().unwrap_or_default()
}

/// For each slot, the first number whose tag is in it.
static NUMBER_IN_SLOT: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let (mut numbers, mut missing) = (vec![None; SLOTS], SLOTS);
    // Each slot is met within 300,000 numbers.
    for number in 0..u32::MAX {
        if let Some(first @ None) = numbers.get_mut(slot(format!("o:{number}").as_bytes())) {
            *first = Some(number);
            missing = missing.saturating_sub(1);
        }
        if missing == 0 {
            break;
        }
    }
    numbers.into_iter().map(Option::unwrap_or_default).collect()
});

/// The slot of a hash tag, as a Cluster computes it: CRC-16 (XMODEM).
pub(crate) fn slot(tag: &[u8]) -> usize {
    let step = |crc: u16| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    let crc =
        tag.iter().fold(0u16, |crc, byte| (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| step(crc)));
    usize::from(crc) % SLOTS
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn slots_are_those_of_a_cluster() {
        // As `CLUSTER KEYSLOT` answers.
        assert_eq!((slot(b"123456789"), slot(b"foo"), slot(b"s:")), (12_739, 12_182, slot(b"s:")));
    }

    /// On a Cluster a subject and the account that it shares are in one slot; elsewhere there are 1,024.
    #[test]
    fn shared_account_is_in_the_slot_of_its_subject() {
        let mut seen = std::collections::HashSet::new();
        let policy = Policy::new("p", ["1 / day"]).unwrap();
        let (by_subject, by_name) =
            (Arc::new(policy.clone()), Arc::new(policy.with_cluster_slot("checkout".parse().unwrap())));
        for id in 0..20_000 {
            let subject = Subject::new(&format!("consumer {id}")).unwrap();
            let policy = if id % 2 == 0 { &by_subject } else { &by_name };
            let charge = Charge::new(Arc::clone(policy), subject);
            let there = number(&charge, Slots::OfAccount);
            assert_eq!(slot(format!("o:{there}").as_bytes()), slot(Keys::tag(&charge).as_bytes()));
            seen.insert(number(&charge, Slots::One));
        }
        assert_eq!(seen.len(), SHARED_ACCOUNTS as usize);
    }
}
