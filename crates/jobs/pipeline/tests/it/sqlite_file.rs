//! The SQLite file: its owner, its version, what happens when it cannot be written, backups.

use std::path::Path;

use tollway_core::{Name, Retry, Span, Timestamp};
use tollway_pipeline::{
    ClaimRequest, Conclusion, Engine, EngineFault, Enqueued, Filter, Finished, NewJob, Output, SqliteEngine,
    State,
};

fn stage() -> Name {
    Name::new("a").unwrap()
}

fn job(key: &str, bytes: usize) -> NewJob {
    NewJob::new(&stage(), key, &format!("\"{}\"", "x".repeat(bytes))).unwrap()
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

fn wait<T>(answer: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(answer)
}

fn sql(path: &Path, statement: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(statement).unwrap();
}

/// P8: one process runs the file; a second one is told which.
#[test]
fn second_owner_is_refused_and_told_the_pid() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let first = SqliteEngine::open(&path).unwrap();
    let error = SqliteEngine::open(&path).err().unwrap();
    assert!(error.message.contains(&format!("process {}", std::process::id())), "{error}");
    drop(first);
    SqliteEngine::open(&path).unwrap();
}

/// Another user's link does not choose the file that jobs are written to; a link to a folder is one that the operator made.
#[test]
fn jobs_and_their_owner_are_not_opened_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str| folder.path().join(name);
    for link in ["jobs.db-owner", "jobs.db"] {
        std::os::unix::fs::symlink(in_folder("target"), in_folder(link)).unwrap();
        let error = SqliteEngine::open(&in_folder("jobs.db")).err().unwrap();
        assert!(error.message.contains("it is a symbolic link"), "{link}: {error}");
        assert_eq!(error.retry, Retry::Useless);
        assert!(!in_folder("target").exists(), "{link}");
        std::fs::remove_file(in_folder(link)).unwrap();
    }
    std::os::unix::fs::symlink(folder.path(), in_folder("linked")).unwrap();
    let engine = SqliteEngine::open(&in_folder("linked/jobs.db")).unwrap();
    wait(engine.enqueue(vec![job("a", 1)], at(0))).unwrap();
    wait(engine.backup(&in_folder("linked/copy.db"))).unwrap();
    assert!(in_folder("jobs.db").exists() && in_folder("copy.db").exists());
}

#[test]
fn newer_and_foreign_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    drop(SqliteEngine::open(&path).unwrap());
    sql(&path, "PRAGMA user_version = 99");
    let error = SqliteEngine::open(&path).err().unwrap();
    assert!(error.message.contains("version 99, made by a newer Tollway"), "{error}");
    assert_eq!(error.retry, Retry::Useless);

    let foreign = folder.path().join("foreign.db");
    sql(&foreign, "CREATE TABLE notes (text TEXT)");
    let error = SqliteEngine::open(&foreign).err().unwrap();
    assert!(error.message.contains("tables of another program"), "{error}");
    let missing = SqliteEngine::open(&folder.path().join("no folder/jobs.db")).err().unwrap();
    assert!(missing.message.contains("make its folder"), "{missing}");
}

#[test]
fn one_wrong_operation_of_a_batch_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let engine = SqliteEngine::open(&folder.path().join("jobs.db")).unwrap();
    let jobs = (0..50).map(|n| job(&n.to_string(), 1)).collect();
    wait(engine.enqueue(jobs, at(0))).unwrap();
    // The key of job 7's output is taken.
    let b = Name::new("b").unwrap();
    wait(engine.enqueue(vec![NewJob::new(&b, "7>a.0", "1").unwrap()], at(0))).unwrap();
    let request = ClaimRequest::new(&stage(), "w", Span::from_secs(60)).count(50);
    let claimed = wait(engine.claim(request, at(0))).unwrap();
    // All are queued before the first answer is awaited, so most share a transaction.
    let answers: Vec<_> = claimed
        .into_iter()
        .map(|claimed| {
            let outputs = vec![Output::new(&b, "1").unwrap()];
            engine.finish(claimed.claim, Conclusion::Done { outputs, result: None }, at(1))
        })
        .collect();
    for (n, answer) in answers.into_iter().enumerate() {
        match wait(answer) {
            Ok(finished) => {
                assert_eq!((finished, n != 7), (Finished::Committed { outputs: 1, joined: 0 }, true))
            }
            Err(error) => assert_eq!((n, error.fault), (7, EngineFault::Caller)),
        }
    }
    let counts = wait(engine.counts()).unwrap();
    assert_eq!((counts[0].of(State::Done), counts[0].of(State::Running)), (49, 1));
    assert_eq!((counts[1].of(State::Ready), counts[1].events.enqueued), (50, 50));
}

/// A disk that is full: SQLite reports the same error when the file may not grow.
#[test]
fn full_disk_is_reported_to_every_caller_and_heals() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let engine = SqliteEngine::open(&path).unwrap();
    wait(engine.enqueue(vec![job("before", 10)], at(0))).unwrap();
    wait(engine.limit_file(400_000)).unwrap();
    let answers: Vec<_> = (0..8).map(|n| engine.enqueue(vec![job(&n.to_string(), 300_000)], at(1))).collect();
    let (mut stored, mut refused) = (Vec::new(), 0);
    for (n, answer) in answers.into_iter().enumerate() {
        match wait(answer) {
            Ok(_) => stored.push(n.to_string()),
            Err(error) => {
                assert_eq!((error.fault, error.retry), (EngineFault::Storage, Retry::Safe), "{error}");
                assert!(error.message.contains("make room on the disk"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused >= 7, "{stored:?}");
    wait(engine.limit_file(1 << 30)).unwrap();
    assert!(matches!(wait(engine.enqueue(vec![job("after", 10)], at(2))).unwrap()[..], [Enqueued::New(_)]));
    let jobs = wait(engine.scan(Filter::default(), None, 100)).unwrap().items;
    let keys: Vec<&str> = jobs.iter().map(|job| job.key.as_str()).collect();
    let expected: Vec<&str> =
        ["before"].into_iter().chain(stored.iter().map(String::as_str)).chain(["after"]).collect();
    assert_eq!(keys, expected);
    assert_eq!(wait(engine.counts()).unwrap()[0].of(State::Ready), keys.len() as u64);
}

/// A job in a backup is a job in the file, and the backup is complete though workers go on.
#[test]
fn backup_while_running_is_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let engine = SqliteEngine::open(&folder.path().join("jobs.db")).unwrap();
    wait(engine.enqueue((0..500).map(|n| job(&n.to_string(), 100)).collect(), at(0))).unwrap();
    let copy = folder.path().join("copy.db");
    let during = engine.enqueue((500..900).map(|n| job(&n.to_string(), 100)).collect(), at(0));
    wait(engine.backup(&copy)).unwrap();
    wait(during).unwrap();
    assert!(wait(engine.backup(&copy)).unwrap_err().message.contains("exists"));
    let restored = SqliteEngine::open(&copy).unwrap();
    let (matching, counted) = (
        wait(restored.matching(Filter::default())).unwrap(),
        wait(restored.counts()).unwrap()[0].of(State::Ready),
    );
    assert!(matching == 500 || matching == 900, "{matching}");
    assert_eq!(matching, counted);
    wait(restored.claim(ClaimRequest::new(&stage(), "w", Span::from_secs(1)), at(1))).unwrap().remove(0);
}

#[test]
fn jobs_survive_a_reopened_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let engine = SqliteEngine::open(&path).unwrap();
    wait(engine.enqueue(vec![job("1", 1), job("2", 1)], at(0))).unwrap();
    let request = || ClaimRequest::new(&stage(), "w", Span::from_hours(1));
    let claimed = wait(engine.claim(request(), at(0))).unwrap().remove(0);
    drop(engine);
    let engine = SqliteEngine::open(&path).unwrap();
    assert_eq!(wait(engine.enqueue(vec![job("2", 1)], at(1))).unwrap().len(), 1);
    assert_eq!(wait(engine.counts()).unwrap()[0].events.enqueued, 2);
    // The claim is as it was, and its worker may still answer.
    let conclusion = Conclusion::Done { outputs: vec![], result: None };
    let finished = wait(engine.finish(claimed.claim, conclusion, at(2))).unwrap();
    assert_eq!(finished, Finished::Committed { outputs: 0, joined: 0 });
}
