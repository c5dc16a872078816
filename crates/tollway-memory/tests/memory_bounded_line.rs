//! What one line takes that is full of ids or of slots. A process of its own, because it measures memory.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "it/memory_support.rs"]
mod memory_support;

use memory_support::{apply, charge, policy, resident, store_of, subject};
use tollway_core::bounds::{CALL_IDS_MAX, SLOTS_MAX};
use tollway_core::{Action, CallId, Outcome, PermitId, Policy, Span, Terms};
use tollway_memory::SHARDS;

const LINES: usize = 16;

/// Ids and slots have no bound for the store, only for each line: the worst that SECURITY.md says of one.
#[test]
fn a_line_full_of_ids_or_slots_takes_no_more_than_is_said() {
    let (store, _clock) = store_of(SHARDS);
    let (ids, slots) = (policy("ids", "10k / hour"), policy("slots", "10k concurrent"));
    let take_with = |policy: &Policy, number: usize, call: Option<CallId>| {
        let subject = subject(&format!("subject-{}", number % LINES));
        let permit = PermitId(number as u128);
        let terms = Terms { permit, max_wait: Span::ZERO, call, readings: false };
        let action = Action::Take(terms);
        let outcome = apply(&store, &[charge(policy, &subject)], action);
        assert!(matches!(&outcome, Outcome::Decided(decision) if decision.is_granted()), "{outcome:?}");
    };
    let before = resident();
    for number in 0..LINES * CALL_IDS_MAX {
        take_with(&ids, number, Some(CallId::new(&format!("{number:0>128}")).unwrap()));
    }
    let with_ids = resident();
    for number in 0..LINES * SLOTS_MAX as usize {
        take_with(&slots, number, None);
    }
    let of_ids = (with_ids - before) / LINES as u64;
    let of_slots = (resident() - with_ids) / LINES as u64;
    assert!((128 << 10..560 << 10).contains(&of_ids), "{of_ids} bytes for the ids of a line");
    assert!((240 << 10..700 << 10).contains(&of_slots), "{of_slots} bytes for the slots of a line");
}
