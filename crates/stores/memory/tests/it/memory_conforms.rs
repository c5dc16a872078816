//! The memory store passes the conformance suite: T1, T2, T3, and so I1 to I7.
//!
//! `TOLLWAY_SEQUENCES=100000` makes it long, `TOLLWAY_SEED=7` starts it elsewhere.
#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how much it compared"
)]

use tollway_memory::MemoryStore;
use tollway_testkit::ManualRig;
use tollway_testkit::conformance::{Effort, rounds, scenarios, sequences};

fn effort() -> Effort {
    let mut effort = Effort::default();
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    effort.sequences = number("TOLLWAY_SEQUENCES").unwrap_or(effort.sequences);
    effort.seed = number("TOLLWAY_SEED").unwrap_or(effort.seed);
    effort
}

fn rig() -> ManualRig {
    ManualRig::new(MemoryStore::new)
}

/// T1: every named scenario of the suite (among them those of B1, B3, B4, B6, G1 to G6, C1, M1 to M6, M9, M11).
#[test]
fn scenarios_hold() {
    let report = scenarios(&rig()).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.scenarios > 50, "{report}");
}

/// T2: random operations, config changes and time jumps, each answer compared with the model's.
#[test]
fn random_sequences_agree_with_the_model() {
    let Effort { seed, sequences: count, .. } = effort();
    let report = sequences(&rig(), seed, count).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.sequences, count);
    assert!(report.operations > 40 * count, "too few operations were clear enough to compare: {report}");
    println!("{report}");
}

/// T3: 2 to 16 threads on few accounts, checked by the history checker.
#[test]
fn threads_are_never_over_or_under() {
    let report = rounds(&rig(), effort().rounds).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.calls > 1_000, "{report}");
}

#[test]
fn accounts_are_listed() {
    let clock = std::sync::Arc::new(tollway_testkit::ManualClock::at(tollway_core::Timestamp::from_secs(
        1_700_000_000,
    )));
    let store = MemoryStore::new(clock.clone());
    tollway_testkit::account_list::are_listed(&store);
    clock.advance(tollway_core::Span::from_days(2));
    assert!(tollway_testkit::account_list::list(&store, None, 10).0.is_empty(), "they have expired");
}
