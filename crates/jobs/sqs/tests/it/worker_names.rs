//! Two processes that work under one name.

use tollway_pipeline::EngineUrl;
use tollway_pipeline::conformance::second_process_is_found;
use tollway_sqs::SqsEngine;

use crate::lab::Lab;

#[tokio::test(flavor = "multi_thread")]
async fn second_process_with_a_name_is_found_on_queues() {
    let lab = Lab::new();
    second_process_is_found(|| SqsEngine::open(&EngineUrl::parse(&lab.url).unwrap()).unwrap()).await;
}
