//! A runner that is stopped while its handlers work: what they answered counts, and nothing is called twice.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tollway::Limiter;
use tollway_core::Span;
use tollway_pipeline::handler::guard::GuardProgram;
use tollway_pipeline::run::Runner;
use tollway_pipeline::{
    CommandConfig, Engine, Filter, HandlerConfig, HttpConfig, NewJob, SqliteEngine, StageConfig, State,
};

use crate::lab::wait_until;
use crate::{now, stage};

const FOLDER: &str = "TOLLWAY_FROZEN_FOLDER";
const URL: &str = "TOLLWAY_FROZEN_URL";

/// A stage for each kind of handler.
const STAGES: [&str; 3] = ["long-lived", "each", "http"];

/// How long a handler may take: longer than Python needs to start on a busy machine.
const TIMEOUT: Span = Span::from_secs(10);

/// How long the runner is stopped.
const STOPPED: Duration = Duration::from_secs(12);

/// How long after that a handler answers: it has more time left than this.
const ANSWERS_AFTER: Duration = Duration::from_secs(1);

/// Not a test of its own: the process that is stopped. A failed try, or a crash, would be the end of a job.
#[test]
fn runner() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = Arc::new(SqliteEngine::open(&folder.join("jobs.db")).unwrap());
        let mut builder = Runner::builder(engine, Limiter::builder().build())
            .guard(GuardProgram { program: env!("CARGO_BIN_EXE_processes-guard").into() });
        for name in STAGES {
            let handler = match name {
                "http" => HandlerConfig::Http(HttpConfig::new(std::env::var(URL).unwrap())),
                _ => HandlerConfig::Command(worker(&folder, name == "each")),
            };
            let (handler, name) = (Some(handler), stage(name));
            let timeout = TIMEOUT;
            builder = builder.stage(StageConfig {
                handler,
                timeout,
                tries: 1,
                crashes: 1,
                ..StageConfig::new(name)
            });
        }
        let runner = builder.start().await.unwrap();
        runner.finished().await.unwrap();
        runner.drain(Span::from_secs(10)).await.unwrap();
    });
}

fn worker(folder: &Path, each: bool) -> CommandConfig {
    let log = folder.join("worker.log");
    let script =
        format!("WORKER_LOG={} exec python3 ../pipeline/tests/handlers/worker.py told", log.display());
    CommandConfig { each, ..CommandConfig::new(["sh", "-c", &script]) }
}

/// The same behind a URL, in this process. One request a connection.
fn serve(listener: TcpListener, folder: PathBuf) {
    for stream in listener.incoming().flatten() {
        let folder = folder.clone();
        std::thread::spawn(move || {
            let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
            while head.next().is_some_and(|line| !line.is_empty()) {}
            log(&folder, "called http");
            wait_until("the handlers are told to answer", || folder.join("worker.log.go").exists());
            let _ = (&stream).write_all(b"HTTP/1.1 204 X\r\nconnection: close\r\n\r\n");
            log(&folder, "answered http");
        });
    }
}

fn log(folder: &Path, line: &str) {
    let mut file =
        std::fs::OpenOptions::new().append(true).create(true).open(folder.join("worker.log")).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn logged(folder: &Path, what: &str) -> usize {
    let log = std::fs::read_to_string(folder.join("worker.log")).unwrap_or_default();
    log.lines().filter(|line| line.starts_with(what)).count()
}

/// A child that ends with its test.
struct Stopped(Child);

impl Stopped {
    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// P2: an answer that came while the runner was stopped for longer than a handler may take counts, and so does one that came
/// after, within the time that the handler had left.
#[test]
fn answers_count_although_the_runner_was_stopped_for_longer_than_a_handler_may_take() {
    for answers_while_stopped in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let (listener, served) = (TcpListener::bind("127.0.0.1:0").unwrap(), path.clone());
        let url = format!("http://{}/job", listener.local_addr().unwrap());
        std::thread::spawn(move || serve(listener, served));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let open = || SqliteEngine::open(&path.join("jobs.db")).unwrap();
        let jobs = STAGES.map(|name| NewJob::new(&stage(name), name, "{}").unwrap()).to_vec();
        runtime.block_on(open().enqueue(jobs, now())).unwrap();

        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "frozen::runner", "--nocapture", "--test-threads=1"]);
        command.env(FOLDER, &path).env(URL, url).stdout(Stdio::null());
        let mut child = Stopped(command.spawn().unwrap());
        wait_until("all handlers have a job", || logged(&path, "called") == STAGES.len());
        child.send(Signal::STOP);
        if answers_while_stopped {
            std::fs::write(path.join("worker.log.go"), "").unwrap();
            wait_until("all handlers have answered", || logged(&path, "answered") == STAGES.len());
        }
        std::thread::sleep(STOPPED);
        child.send(Signal::CONT);
        std::thread::sleep(ANSWERS_AFTER);
        std::fs::write(path.join("worker.log.go"), "").unwrap();
        wait_until("all jobs have ended", || child.0.try_wait().unwrap().is_some());
        let status = child.0.wait().unwrap();
        assert!(status.success(), "{status} {:?}", status.signal());

        for job in runtime.block_on(open().scan(Filter::default(), None, 10)).unwrap().items {
            assert_eq!((job.state, job.failures, job.crashes), (State::Done, 0, 0), "{job:?}");
        }
        assert_eq!(logged(&path, "called"), STAGES.len(), "no call was made again");
    }
}
