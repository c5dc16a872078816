//! What keeps jobs or counts is away for seconds while `tollway pipeline run` works without `--stay`: it waits, loses nothing,
//! calls for no job twice, and ends when all is done.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tollway_testkit::servers::RedisServer;

use crate::home::Home;
use crate::pipeline_run::{Run, enqueue, home, jobs, status, wait_until};

/// Notes every call in a file, and takes its time.
const WORKER: &str = r#"
import json, sys, time
for line in sys.stdin:
    job = json.loads(line)["job"]
    with open("calls", "a") as calls:
        calls.write(job["key"] + "\n")
    time.sleep(0.1)
    print(json.dumps({"done": job["id"]}), flush=True)
"#;

const JOBS: u32 = 80;

fn lab(store: &str, policy: &str, engine: &str) -> Home {
    let home = home(&format!(
        r#"
[store]
url = "{store}"
[policies.adobe]
limits = ["100k requests / minute"]
{policy}
[pipelines.pdf]
engine = "{engine}"
[[pipelines.pdf.stages]]
name = "autotag"
take = {{ adobe = {{ requests = 1 }} }}
handler = {{ command = ["python3", "worker.py"] }}
concurrency = 2
visibility_timeout = "10s"
"#
    ));
    home.write("worker.py", WORKER);
    home
}

fn enqueue_all(home: &Home) {
    jobs(home, 0..JOBS, "");
    enqueue(home);
}

/// The keys of all calls so far.
fn calls(home: &Home) -> Vec<String> {
    let calls = std::fs::read_to_string(home.path().join("calls")).unwrap_or_default();
    calls.lines().map(str::to_owned).collect()
}

fn wait_for_calls(home: &Home, count: usize) {
    wait_until(|| calls(home).len() >= count);
}

/// How often the log says this.
fn said(log: &str, text: &str) -> usize {
    log.lines().filter(|line| line.contains(text)).count()
}

/// P4, B13: all is done, after one warning and one line that it is over. Only calls in flight can have been made twice.
fn all_done(home: &Home, run: Run) {
    let (code, summary, _) = run.end();
    let log = log_so_far(home);
    assert_eq!(code, 0, "{log}{summary}");
    let mut keys = calls(home);
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), JOBS as usize, "{log}");
    assert!(all <= JOBS as usize + 4, "{all} calls\n{log}");
}

fn one_warning(home: &Home) {
    let log = log_so_far(home);
    assert_eq!((said(&log, WARNING), said(&log, "the engine answers again")), (1, 1), "{log}");
}

/// The one warning; the alarm has other words before it.
const WARNING: &str = "WARN the engine does not answer: no job is claimed";

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn metrics(port: u16) -> String {
    let fetched =
        Command::new("curl").args(["-s", &format!("http://127.0.0.1:{port}/metrics")]).output().unwrap();
    String::from_utf8(fetched.stdout).unwrap()
}

/// Locks a file of jobs as a foreign program does, until its standard input closes.
struct Locker(Child);

impl Locker {
    fn lock(home: &Home) -> Self {
        let program = "import sqlite3, sys\n\
            c = sqlite3.connect('pdf.db', timeout=60, isolation_level=None)\n\
            c.execute('BEGIN EXCLUSIVE')\nprint('locked', flush=True)\nsys.stdin.read()";
        let mut command = Command::new("python3");
        command.args(["-c", program]).current_dir(home.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "locked\n");
        Self(child)
    }

    fn unlock(mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// Follows what a run logs.
fn log_so_far(home: &Home) -> String {
    std::fs::read_to_string(home.path().join("log")).unwrap_or_default()
}

#[cfg(feature = "postgres")]
mod postgres {
    use tollway_testkit::servers::PostgresServer;

    use super::*;

    #[test]
    fn run_outlives_postgres_that_is_away() {
        let server = PostgresServer::start();
        let home = lab("file:state", "", &server.url());
        enqueue_all(&home);
        let port = free_port();
        let run = Run::start_logging(&home, &["--metrics", &format!("127.0.0.1:{port}")]);
        wait_for_calls(&home, 10);
        server.kill();
        wait_until(|| said(&log_so_far(&home), WARNING) == 1);
        let away = metrics(port);
        assert!(away.contains("tollway_pipeline_engine_up{pipeline=\"pdf\"} 0"), "{away}");
        // Of two workers, one may have been between two jobs when the server was killed.
        let kept =
            ["1", "2"].map(|kept| format!("tollway_pipeline_answers_kept{{pipeline=\"pdf\"}} {kept}\n"));
        wait_until(|| kept.iter().any(|kept| metrics(port).contains(kept)));
        let (code, _, error) = home.run(&["pipeline", "status"]);
        assert_eq!(code, 69, "{error}");
        wait_until(|| said(&log_so_far(&home), "alarm: the engine does not answer") == 1);
        server.restart();
        all_done(&home, run);
        one_warning(&home);
        assert_eq!(said(&log_so_far(&home), "alarm is over: the engine"), 1);
        assert_eq!(status(&home)["stages"][0]["dead"], 0);
    }

    /// A1, P4: machines start in any order.
    #[test]
    fn run_waits_for_postgres_at_the_start() {
        let server = PostgresServer::start();
        let home = lab("file:state", "", &server.url());
        enqueue_all(&home);
        server.kill();
        let (code, _, error) = home.run(&["pipeline", "run", "--wait-for-engine", "2s"]);
        assert_eq!(code, 69, "{error}");
        assert!(error.contains("does not answer; trying for 2 s"), "{error}");
        assert!(error.contains("--wait-for-engine 10m"), "{error}");
        let run = Run::start_logging(&home, &[]);
        wait_until(|| said(&log_so_far(&home), "does not answer; trying for 1 min") == 1);
        server.restart();
        all_done(&home, run);
    }

    /// A server that accepts no byte is named as soon as one that refuses.
    #[test]
    fn run_says_that_a_frozen_postgres_does_not_answer() {
        let server = PostgresServer::start();
        let home = lab("file:state", "", &server.url());
        enqueue_all(&home);
        server.pause();
        let run = Run::start_logging(&home, &[]);
        wait_until(|| said(&log_so_far(&home), "has not answered for 2 s; trying for 1 min") == 1);
        server.resume();
        all_done(&home, run);
    }

    /// What was kept is not lost with the process: another one does those jobs again.
    #[test]
    fn run_can_be_stopped_while_postgres_is_away() {
        let server = PostgresServer::start();
        let home = lab("file:state", "", &server.url());
        enqueue_all(&home);
        let run = Run::start_logging(&home, &["--grace", "1s"]);
        wait_for_calls(&home, 10);
        server.kill();
        wait_until(|| said(&log_so_far(&home), WARNING) == 1);
        run.signal("-TERM");
        let (code, _, _) = run.end();
        assert_eq!(code, 69, "{}", log_so_far(&home));
        assert_eq!(said(&log_so_far(&home), "claims could not be given back; they expire"), 1);
        server.restart();
        let (code, _, log) = home.run(&["pipeline", "run"]);
        assert_eq!(code, 0, "{log}");
        assert_eq!(status(&home)["stages"][0]["done"], JOBS);
    }
}

#[cfg(feature = "aws")]
mod sqs {
    use tollway_testkit::faults::{AwsFront, Treatment};
    use tollway_testkit::servers::Ministack;

    use super::*;

    /// Credentials of a role that is rotated, a server error, a throttle: each for three seconds.
    #[test]
    fn run_outlives_sqs_and_dynamodb_that_are_away() {
        let front = AwsFront::to(Ministack::shared().addr());
        let engine = format!(
            "sqs:?ledger=outage&endpoint=http://{}&access=test:test&create=yes&wait=1s",
            front.addr()
        );
        let home = lab("file:state", "", &engine);
        enqueue_all(&home);
        let run = Run::start_logging(&home, &[]);
        for (count, said) in
            [(5, Treatment::Expired), (20, Treatment::Unavailable), (35, Treatment::Throttled)]
        {
            wait_for_calls(&home, count);
            front.always("", said);
            std::thread::sleep(Duration::from_secs(3));
            front.clear();
        }
        all_done(&home, run);
        let log = log_so_far(&home);
        assert!(said(&log, WARNING) >= 1, "{log}");
        assert_eq!(said(&log, WARNING), said(&log, "the engine answers again"), "{log}");
    }
}

/// A backup program that holds the file, at the start and in the middle.
#[test]
fn run_outlives_a_locked_file() {
    let home = lab("file:state", "", "sqlite:pdf.db");
    enqueue_all(&home);
    let locked = Locker::lock(&home);
    let run = Run::start_logging(&home, &[]);
    wait_until(|| said(&log_so_far(&home), "trying for 1 min") == 1);
    locked.unlock();
    wait_for_calls(&home, 10);
    let locked = Locker::lock(&home);
    wait_until(|| said(&log_so_far(&home), WARNING) == 1);
    locked.unlock();
    all_done(&home, run);
    one_warning(&home);
}

/// G7: the limiter's store is away under `closed`: no job is claimed, and the run goes on afterwards.
#[test]
fn run_outlives_a_store_that_is_away() {
    let redis = RedisServer::start();
    let url = format!("redis://{}", redis.addr());
    let home = lab(&url, "when_store_fails = \"closed\"", "sqlite:pdf.db");
    enqueue_all(&home);
    let run = Run::start_logging(&home, &[]);
    wait_for_calls(&home, 10);
    redis.kill();
    wait_until(|| said(&log_so_far(&home), "the limiter does not decide, so no job is claimed") == 1);
    std::thread::sleep(Duration::from_secs(3));
    redis.restart();
    all_done(&home, run);
    assert_eq!(said(&log_so_far(&home), "the limiter does not decide, so no job is claimed"), 1);
    assert_eq!(said(&log_so_far(&home), "the limiter decides again"), 1);
}
