//! The conformance suite on SQS, with a ledger in DynamoDB.

use tollway_pipeline::conformance::{self, Effort};
use tollway_pipeline::{Engine, EngineUrl};
use tollway_sqs::SqsEngine;
use tollway_testkit::servers::Ministack;

use crate::clock::FollowedByQueues;

/// P2, P4, P7: claims, tries, hand-off and dead letters as the contract says, within the engine's capabilities.
#[test]
fn sqs_passes_the_suite() {
    let server = Ministack::start();
    let mut ledgers = 0;
    let make = || -> Box<dyn Engine> {
        ledgers += 1;
        let url = format!(
            "sqs:?ledger=suite-{ledgers}&endpoint={}&access=test:test&create=yes&wait=0s",
            server.endpoint()
        );
        let engine = SqsEngine::open(&EngineUrl::parse(&url).unwrap()).unwrap();
        Box::new(FollowedByQueues::new(engine, server.queue_clock()))
    };
    let report = conformance::run(Effort::default(), make).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.scenarios >= 25, "{report:?}");
    // Random sequences need order and costs of single jobs, which are not promised.
    assert_eq!(report.operations, 0);
}
