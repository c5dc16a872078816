//! The size of an account full of ids or slots. A separate test program, because it measures memory.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "it/memory_support.rs"]
mod memory_support;

use memory_support::{apply, charge, policy, resident, store_of, subject};
use tollway_core::bounds::{CALL_IDS_MAX, SLOTS_MAX};
use tollway_core::{Action, CallId, Outcome, PermitId, Policy, Span, Terms};
use tollway_memory::SHARDS;

const ACCOUNTS: usize = 16;

/// Ids and slots are bounded per account, not per store: the worst case that SECURITY.md states.
#[test]
fn account_full_of_ids_or_slots_stays_within_its_bound() {
    // Room for many more, so that no two subjects share an overflow meter, however they are hashed.
    let (store, _clock) = store_of(64 * SHARDS);
    let (ids, slots) = (policy("ids", "10k / hour"), policy("slots", "10k concurrent"));
    let take_with = |policy: &Policy, number: usize, call: Option<CallId>| {
        let subject = subject(&format!("subject-{}", number % ACCOUNTS));
        let permit = PermitId(number as u128);
        let terms = Terms {
            permit,
            max_wait: Span::ZERO,
            call,
            readings: false,
            new_accounts: tollway_core::NewAccounts::Make,
        };
        let action = Action::Take(terms);
        let outcome = apply(&store, &[charge(policy, &subject)], action);
        assert!(matches!(&outcome, Outcome::Decided(decision) if decision.is_granted()), "{outcome:?}");
    };
    let before = resident();
    for number in 0..ACCOUNTS * CALL_IDS_MAX {
        take_with(&ids, number, Some(CallId::new(&format!("{number:0>128}")).unwrap()));
    }
    let with_ids = resident();
    for number in 0..ACCOUNTS * SLOTS_MAX as usize {
        take_with(&slots, number, None);
    }
    let of_ids = (with_ids - before) / ACCOUNTS as u64;
    let of_slots = (resident() - with_ids) / ACCOUNTS as u64;
    assert!((128 << 10..560 << 10).contains(&of_ids), "{of_ids} bytes for the ids of an account");
    assert!((240 << 10..700 << 10).contains(&of_slots), "{of_slots} bytes for the slots of an account");
}
