//! The whole suite on the simplest correct store. `TOLLWAY_SEQUENCES=100000` makes it long.
#![allow(clippy::print_stdout, reason = "it says how much it compared")]

use tollway_testkit::conformance::{Effort, rounds, scenarios, sequences};
use tollway_testkit::{ManualRig, PlainStore};

fn effort() -> Effort {
    let mut effort = Effort::default();
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    effort.sequences = number("TOLLWAY_SEQUENCES").unwrap_or(effort.sequences);
    effort.seed = number("TOLLWAY_SEED").unwrap_or(effort.seed);
    effort
}

#[test]
fn scenarios_hold() {
    let report =
        scenarios(&ManualRig::new(PlainStore::checked)).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.scenarios > 50, "{report}");
}

#[test]
fn random_sequences_agree_with_the_model() {
    let Effort { seed, sequences: count, .. } = effort();
    let report = sequences(&ManualRig::new(PlainStore::new), seed, count)
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.sequences, count);
    assert!(report.operations > 40 * count, "too few operations were clear enough to compare: {report}");
    println!("{report}");
}

#[test]
fn threads_are_never_over_or_under() {
    let report = rounds(&ManualRig::new(PlainStore::new), effort().rounds)
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.calls > 1_000, "{report}");
}
