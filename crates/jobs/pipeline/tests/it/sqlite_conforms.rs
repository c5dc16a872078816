//! The conformance suite on SQLite.

use tollway_pipeline::conformance::{self, Effort};
use tollway_pipeline::{Engine, SqliteEngine};

/// P2, P4, P7: claims, tries, hand-off and dead letters as the contract says.
#[test]
fn sqlite_passes_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = 0;
    let make = || -> Box<dyn Engine> {
        files += 1;
        Box::new(SqliteEngine::open(&folder.path().join(format!("{files}.db"))).unwrap())
    };
    let sequences =
        std::env::var("TOLLWAY_PIPELINE_SEQUENCES").ok().and_then(|count| count.parse().ok()).unwrap_or(6);
    let seed = std::env::var("TOLLWAY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let report = conformance::run(Effort { seed, sequences, steps: 300 }, make);
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.scenarios > 40, "{report:?}");
    assert_eq!(report.skipped, 0);
    assert_eq!(report.operations, sequences * 300);
}
