//! Tests of the suite itself: each planted bug must make it fail.

// A test fails by panicking, also in its helpers.
#![allow(clippy::expect_used)]

use std::sync::Arc;

use tollway_core::Clock;
use tollway_testkit::conformance::{Failure, rounds, scenarios, sequences};
use tollway_testkit::planted::{Bug, PlantedStore};
use tollway_testkit::{ManualRig, Rig};

fn rig(bug: Bug) -> impl Rig {
    ManualRig::new(move |clock: Arc<dyn Clock>| PlantedStore::new(bug, clock))
}

/// Caught by the scenarios.
fn caught_by_scenarios(bug: Bug) -> Failure {
    scenarios(&rig(bug)).expect_err("no scenario noticed the bug")
}

/// Caught by the random sequences alone.
fn caught_by_sequences(bug: Bug) -> Failure {
    sequences(&rig(bug), 1, 500).expect_err("no sequence noticed the bug")
}

/// M2: limitador reads, compares, then adds, and exceeded its limit in 79 of 2,000 rounds of 8 threads. Only threads can
/// show it: scenarios and sequences pass with this bug.
#[test]
fn check_then_add_is_caught_by_threads() {
    let failure = rounds(&rig(Bug::CheckThenAdd), 200).expect_err("check-then-add is caught");
    assert!(failure.message.contains("A-"), "{failure}");
}

#[test]
fn a_cost_that_wraps_is_caught() {
    let failure = caught_by_scenarios(Bug::Wrap);
    assert_eq!(failure.scenario, "costs_that_would_wrap_are_refused");
}

#[test]
fn account_expiring_too_early_is_caught() {
    caught_by_scenarios(Bug::LostExpiry);
    caught_by_sequences(Bug::LostExpiry);
}

#[test]
fn a_double_charge_is_caught() {
    caught_by_scenarios(Bug::DoubleCharge);
    caught_by_sequences(Bug::DoubleCharge);
    let failure = rounds(&rig(Bug::DoubleCharge), 1).expect_err("the checker did not notice the bug");
    assert!(failure.message.contains("A-"), "{failure}");
}

#[test]
fn a_leaking_denial_is_caught() {
    let failure = caught_by_scenarios(Bug::LeakingDenial);
    assert_eq!(failure.scenario, "a_denial_by_one_policy_leaves_the_other");
    caught_by_sequences(Bug::LeakingDenial);
}

#[test]
fn a_grant_a_microsecond_early_is_caught() {
    caught_by_scenarios(Bug::EarlyGrant);
    caught_by_sequences(Bug::EarlyGrant);
}

/// A failure names the sequence, the operations, the answer and the expected answer.
#[test]
fn failure_lists_the_sequence_and_the_difference() {
    let failure = caught_by_sequences(Bug::DoubleCharge);
    assert!(failure.scenario.contains("seed"), "{failure}");
    for part in ["left the store, right the model", "take", "left: ", "right: "] {
        assert!(failure.message.contains(part), "{part:?} is missing in {failure}");
    }
}
