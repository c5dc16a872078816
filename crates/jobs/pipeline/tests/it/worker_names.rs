//! Two processes that work under one name.

use tollway_pipeline::PostgresEngine;
use tollway_pipeline::conformance::second_process_is_found;
use tollway_testkit::servers::PostgresServer;

#[tokio::test(flavor = "multi_thread")]
async fn second_process_with_a_name_is_found_on_postgres() {
    let server = PostgresServer::start();
    second_process_is_found(|| PostgresEngine::open(&server.url()).unwrap()).await;
}
