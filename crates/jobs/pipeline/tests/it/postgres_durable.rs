//! A Postgres that answers before it has written: what the engine acknowledged survives a crash of the server.

use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::{ClaimRequest, Conclusion, Engine, Filter, NewJob, Output, PostgresEngine, State};
use tollway_testkit::servers::PostgresServer;

const NOW: Timestamp = Timestamp::from_secs(1_000_000);

/// P4: the server's own default loses the last seconds in a crash, and the engine overrides it.
#[test]
fn acknowledged_jobs_survive_a_crash_of_a_server_with_asynchronous_commit() {
    let server = PostgresServer::start_with(&["synchronous_commit=off", "wal_writer_delay=10s"]);
    server.query("CREATE TABLE asynchronous (n integer)");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (a, b) = (Name::new("a").unwrap(), Name::new("b").unwrap());
    let done = |to: &Name| Conclusion::Done {
        outputs: vec![Output::new(to, "1").unwrap()],
        result: Some("1".to_owned()),
    };
    let mut lost = 0;
    for round in 0..3 {
        // A new engine: the sessions of the last one ended with the server.
        let engine = PostgresEngine::open(&server.url()).unwrap();
        let key = format!("k{round}");
        runtime.block_on(async {
            engine.enqueue(vec![NewJob::new(&a, &key, "1").unwrap()], NOW).await.unwrap();
            let claimed =
                engine.claim(ClaimRequest::new(&a, "w", Span::from_mins(15)), NOW).await.unwrap().remove(0);
            engine.finish(claimed.claim, done(&b), NOW).await.unwrap();
            engine.enqueue(vec![NewJob::new(&a, &format!("{key}-2"), "1").unwrap()], NOW).await.unwrap();
        });
        server.query(&format!("INSERT INTO asynchronous VALUES ({round})"));
        server.restart();
        let found = server.query(&format!("SELECT count(*) FROM asynchronous WHERE n = {round}"));
        lost += u32::from(found == "0");
        let engine = PostgresEngine::open(&server.url()).unwrap();
        let jobs = runtime.block_on(engine.scan(Filter::default(), None, 100)).unwrap().items;
        let state = |key: &str| jobs.iter().find(|job| job.key == key).map(|job| job.state);
        assert_eq!(state(&key), Some(State::Done), "{jobs:?}");
        assert_eq!(state(&format!("{key}>a.0")), Some(State::Ready));
        assert_eq!(state(&format!("{key}-2")), Some(State::Ready));
        // The next round claims its own.
        let waiting = Filter { state: Some(State::Ready), ..Filter::default() };
        let cancel = engine.change(waiting, tollway_pipeline::Change::Cancel, None, 100, NOW);
        runtime.block_on(cancel).unwrap();
    }
    assert!(lost > 0, "the server lost nothing, so this test shows nothing");
}
