//! The room that purged jobs have left in a SQLite file, and commands beside an owner that does not answer.

use std::path::Path;

use tollway_core::{Name, Timestamp};
use tollway_pipeline::{
    Change, Compaction, Engine, EngineFault, EngineOpener, EngineUrl, Filter, NewJob, SqliteEngine, State,
};

const MIB: u64 = 1 << 20;

fn stage() -> Name {
    Name::new("a").unwrap()
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

/// Enqueues 32 MiB of jobs, of which `stay` stay when the others were purged.
async fn fill_and_purge(engine: &SqliteEngine, stay: usize) {
    let data = format!("\"{}\"", "x".repeat(32 << 10));
    for batch in 0..16 {
        let key = |n| format!("{batch}-{n}");
        let jobs = (0..64).map(|n| NewJob::new(&stage(), &key(n), &data).unwrap()).collect();
        engine.enqueue(jobs, at(0)).await.unwrap();
    }
    let cancelled =
        engine.change(Filter::default(), Change::Cancel, None, 1_000 - stay, at(1)).await.unwrap();
    assert_eq!(cancelled.jobs, 1_000 - stay as u64);
    let rest = engine.change(Filter::default(), Change::Cancel, cancelled.next, 24, at(1)).await.unwrap();
    assert_eq!(rest.jobs, 24);
    while engine.purge(&stage(), at(2), 1_000).await.unwrap() > 0 {}
}

fn bytes(file: &Path) -> u64 {
    std::fs::metadata(file).unwrap().len()
}

fn auto_vacuum(file: &Path) -> u64 {
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.query_row("PRAGMA auto_vacuum", [], |row| row.get(0)).unwrap()
}

/// As versions before this one made it.
fn make_old(file: &Path) {
    drop(SqliteEngine::open(file).unwrap());
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.execute_batch("PRAGMA auto_vacuum = NONE; VACUUM").unwrap();
    drop(connection);
    assert_eq!(auto_vacuum(file), 0);
}

#[tokio::test]
async fn purged_jobs_give_their_room_back_while_the_pipeline_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let engine = SqliteEngine::open(&file).unwrap();
    fill_and_purge(&engine, 10).await;
    engine.tidy().await.unwrap();
    assert!(bytes(&file) < 8 * MIB, "{}", bytes(&file));
    assert_eq!(engine.counts().await.unwrap()[0].of(State::Ready), 10);
    assert_eq!(engine.matching(Filter::default()).await.unwrap(), 10);
}

#[tokio::test]
async fn compaction_rewrites_an_old_file_which_then_gives_room_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    make_old(&file);
    let engine = SqliteEngine::open(&file).unwrap();
    fill_and_purge(&engine, 10).await;
    engine.tidy().await.unwrap();
    drop(engine);
    assert!(bytes(&file) > 30 * MIB, "{}", bytes(&file));
    let compaction = Compaction::open(&file).unwrap();
    assert!(compaction.used_bytes().unwrap() < 2 * MIB);
    compaction.run().unwrap();
    assert!(compaction.bytes() < 2 * MIB, "{}", compaction.bytes());
    drop(compaction);
    assert_eq!((auto_vacuum(&file), bytes(&file) < 2 * MIB), (2, true));
    let engine = SqliteEngine::open(&file).unwrap();
    assert_eq!(engine.matching(Filter::default()).await.unwrap(), 10);
}

/// It would rewrite the file under a process that works on the jobs.
#[test]
fn compaction_is_refused_beside_an_owner_which_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let engine = SqliteEngine::open(&file).unwrap();
    let error = Compaction::open(&file).err().unwrap();
    assert_eq!(error.fault, EngineFault::Busy);
    assert!(error.message.contains(&format!("process {}", std::process::id())), "{error}");
    drop(engine);
    let compaction = Compaction::open(&file).unwrap();
    assert_eq!(SqliteEngine::open(&file).err().unwrap().fault, EngineFault::Busy);
    drop(compaction);
    SqliteEngine::open(&file).unwrap();
}

/// The owner is suspended: the kernel connects to its socket, and no answer comes. Counts and lists are read from the file,
/// also what the owner has not written back from its log.
#[tokio::test(flavor = "multi_thread")]
async fn file_of_an_owner_that_does_not_answer_is_read_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let owner = SqliteEngine::open(&file).unwrap();
    let _suspended = std::os::unix::net::UnixListener::bind(folder.path().join("jobs.db-socket")).unwrap();
    let new = |key: &str| NewJob::new(&stage(), key, "1").unwrap();
    owner.enqueue(vec![new("1"), new("2")], at(0)).await.unwrap();
    let mut why = None;
    let url = EngineUrl::parse(&format!("sqlite:{}", file.display())).unwrap();
    let engine =
        EngineOpener::default().open_beside(&url, false, |error| why = Some(error.clone())).await.unwrap();
    let why = why.unwrap();
    let pid = format!("process {}", std::process::id());
    assert!(why.message.contains(&pid) && why.message.contains("kill -CONT"), "{why}");
    assert_eq!(engine.counts().await.unwrap(), owner.counts().await.unwrap());
    let page = engine.scan(Filter::default(), None, 10).await.unwrap();
    assert_eq!(page.items.iter().map(|job| job.key.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(engine.enqueue(vec![new("3")], at(1)).await.unwrap_err(), why);
    engine.backup(&folder.path().join("copy.db")).await.unwrap();
    drop(owner);
}
