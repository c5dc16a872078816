//! The conformance suite on Postgres.

use tollway_pipeline::conformance::{self, Effort};
use tollway_pipeline::{Engine, PostgresEngine};
use tollway_testkit::servers::PostgresServer;

/// P2, P4, P7: claims, tries, hand-off and dead letters as the contract says.
#[test]
fn postgres_passes_the_suite() {
    let server = PostgresServer::start();
    let mut schemas = 0;
    let make = || -> Box<dyn Engine> {
        schemas += 1;
        let url = format!("{}?schema=suite_{schemas}&connections=2", server.url());
        Box::new(PostgresEngine::open(&url).unwrap())
    };
    let sequences =
        std::env::var("TOLLWAY_PIPELINE_SEQUENCES").ok().and_then(|count| count.parse().ok()).unwrap_or(4);
    let seed = std::env::var("TOLLWAY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let report = conformance::run(Effort { seed, sequences, steps: 200 }, make);
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.scenarios > 40, "{report:?}");
    assert_eq!(report.skipped, 0);
    assert_eq!(report.operations, sequences * 200);
}
