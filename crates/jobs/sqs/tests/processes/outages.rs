//! A disk without room, a file that cannot be written, a Postgres that is restarted: a clear error, nothing is lost, and the
//! pipeline goes on by itself.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tollway_core::Timestamp;
use tollway_pipeline::{Engine, Filter, NewJob, SqliteEngine};

use crate::checker::{OPEN, check};
use crate::child::Plan;
use crate::lab::{Jobs, Lab, Process, wait_until};
use crate::{child, stage};

/// P4: the operating system lets no file of the process grow. SQLite gets the error in the middle of its log.
#[test]
fn files_that_cannot_grow_delay_jobs_and_lose_none() {
    let lab = Lab::new(Jobs::Sqlite);
    let plan = lab.plan("one", 0);
    let process = lab.start_by(command_for_small_files(&plan), plan);
    for round in 1..=2 {
        let calls = lab.vendor.calls();
        wait_until("jobs are done", || lab.vendor.calls() >= calls + 20);
        let log = std::fs::metadata(lab.path("jobs.db-wal")).unwrap().len();
        limit_files(&process, Some(log));
        let errors = process.errors().len();
        wait_until("the enqueuer hears of it", || process.errors().len() >= errors + 3);
        let error = process.errors().pop().unwrap();
        assert!(error.contains("jobs cannot be stored: SQLite: disk I/O error"), "{error}");
        assert!(error.contains("check the disk"), "round {round}: {error}");
        limit_files(&process, None);
    }
    process.finish();
    println!("{}", check(&lab, OPEN, true).unwrap_or_else(|wrong| panic!("{wrong}")));
}

/// A command that starts a child which survives a limit of file sizes: the signal that comes with the error is ignored.
pub(crate) fn command_for_small_files(plan: &Plan) -> Command {
    let mut command = Command::new("sh");
    let inner = child::command(plan);
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Lets no file of a process grow beyond so many bytes; none: the limit is gone.
pub(crate) fn limit_files(process: &Process<'_>, bytes: Option<u64>) {
    let pid = Pid::from_raw(process.id().try_into().unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

/// P4, P8: two processes work on through two restarts of their server, and are not restarted themselves.
#[test]
fn restarted_postgres_delays_jobs_and_loses_none() {
    let lab = Lab::new(Jobs::own_postgres());
    let mut processes = [lab.start(lab.plan("one", 0)), lab.start(lab.plan("two", 0))];
    let Jobs::Postgres(server, _) = &lab.jobs else { unreachable!() };
    for _ in 0..2 {
        let calls = lab.vendor.calls();
        wait_until("jobs are done", || lab.vendor.calls() >= calls + 20);
        // Claims that are committed when the server dies have no caller.
        lab.note_kill("server");
        server.kill();
        for process in &processes {
            let errors = process.errors().len();
            wait_until("the enqueuers hear of it", || process.errors().len() > errors);
            let error = process.errors().pop().unwrap();
            assert!(error.starts_with("error engine unreachable: "), "{error}");
        }
        server.restart();
    }
    let calls = lab.vendor.calls();
    wait_until("jobs are done again", || lab.vendor.calls() >= calls + 20);
    processes.iter_mut().for_each(Process::tell_to_end);
    processes.into_iter().for_each(Process::finish);
    println!("{}", check(&lab, OPEN, true).unwrap_or_else(|wrong| panic!("{wrong}")));
}

const READ_ONLY: &str = "TOLLWAY_TEST_READ_ONLY";

/// Not a test of its own: opens a file, enqueues a job, and says which jobs there are, or why not.
#[test]
fn opener() {
    let Some(file) = std::env::var_os(READ_ONLY).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let told = SqliteEngine::open(&file).and_then(|engine| {
        let jobs = runtime.block_on(engine.scan(Filter::default(), None, 10))?.items;
        let key = format!("k{}", jobs.len());
        runtime.block_on(
            engine.enqueue(vec![NewJob::new(&stage("a"), &key, "1").unwrap()], Timestamp::from_secs(1)),
        )?;
        Ok(jobs.into_iter().map(|job| job.key).collect::<Vec<_>>().join(" "))
    });
    match told {
        Ok(keys) => println!("\njobs {keys}"),
        Err(error) => println!("\nerror {error}"),
    }
}

/// P4: a file that this user may not write is refused with the reason, and is as it was when that is over.
#[test]
fn read_only_file_is_refused_and_keeps_its_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    assert_eq!(open(&file), "jobs ");
    assert_eq!(open(&file), "jobs k0");
    let allow = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    allow(0o444);
    let error = open(&file);
    assert!(error.starts_with("error jobs cannot be stored: the file is read-only"), "{error}");
    assert!(error.contains("let this user write the file and its folder"), "{error}");
    assert!(error.contains("jobs.db"), "{error}");
    allow(0o644);
    assert_eq!(open(&file), "jobs k0 k1");
}

/// What a process says that may not write what its user may not write, root included.
fn open(file: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    if rustix::process::getuid().is_root() {
        command = Command::new("setpriv");
        command.arg("--bounding-set=-dac_override,-dac_read_search").arg(std::env::current_exe().unwrap());
    }
    command.args(["--exact", "outages::opener", "--nocapture", "--test-threads=1"]).env(READ_ONLY, file);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find(|line| line.starts_with("jobs ") || line.starts_with("error "));
    line.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr))).to_owned()
}
