//! Processes that share one item of DynamoDB without leases: what a take costs when others write the item, too (G12). The
//! processes are this test itself, started again as workers.
//!
//! `cargo test -p tollway --features dynamodb --test contended_item -- --ignored --nocapture` prints latencies and takes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tollway::Limiter;
use tollway::core::WhenStoreFails;
use tollway_testkit::faults::AwsFront;
use tollway_testkit::servers::DynamoServer;

/// What tells a worker from the test: callers, the pause of each between takes, takes of each, and the store.
const WORKER: &str = "TOLLWAY_TEST_WORKER";

/// Not a test: what the processes do. Prints the microseconds of each take.
#[test]
fn worker() {
    let Ok(task) = std::env::var(WORKER) else { return };
    let words: Vec<&str> = task.split(' ').collect();
    let [callers, pause, takes, url] = words[..] else { panic!("{task}") };
    let (callers, takes): (u64, u64) = (callers.parse().unwrap(), takes.parse().unwrap());
    let pause = Duration::from_micros(pause.parse().unwrap());
    let policy = tollway::Policy::new("hot", ["1000000 requests / day from first call"]).unwrap();
    let policy = policy.with_when_store_fails(WhenStoreFails::Closed);
    let limiter =
        Limiter::builder().with_policy(policy).unwrap().store_at(&url.parse().unwrap()).unwrap().build();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { limiter.try_take("hot").await.map(drop).unwrap() });
    // All processes begin together: the parent says when.
    println!("ready");
    std::io::stdin().read_exact(&mut [0]).unwrap();
    let seed = u64::from(std::process::id());
    let latencies = runtime.block_on(async {
        let caller = |limiter: Limiter, number: u64| async move {
            let mut latencies = Vec::new();
            // Callers do not come in step.
            let mut due = Instant::now() + pause * u32::try_from((seed * 7 + number * 3) % 16).unwrap() / 16;
            for _ in 0..takes {
                tokio::time::sleep(due.saturating_duration_since(Instant::now())).await;
                due = Instant::now().max(due) + pause;
                let begun = Instant::now();
                assert!(limiter.try_take("hot").await.unwrap().is_granted());
                latencies.push(begun.elapsed().as_micros());
            }
            latencies
        };
        let callers: Vec<_> =
            (0..callers).map(|number| tokio::spawn(caller(limiter.clone(), number))).collect();
        let mut all = Vec::new();
        for caller in callers {
            all.extend(caller.await.unwrap());
        }
        all
    });
    let latencies: Vec<String> = latencies.iter().map(u128::to_string).collect();
    println!("took {}", latencies.join(" "));
}

struct Worker {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn start(task: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["worker", "--exact", "--nocapture"]).env(WORKER, task);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    fn line_with(&mut self, word: &str) -> String {
        let lines = self.output.by_ref().lines().map_while(Result::ok);
        let found = lines.filter_map(|line| Some(line.split_once(word)?.1.to_owned())).next();
        found.unwrap_or_else(|| panic!("a worker ended"))
    }

    fn go(&mut self) {
        self.process.stdin.take().unwrap().write_all(b"!").unwrap();
    }

    /// The latency of each take; all of them were granted by the store.
    fn latencies(mut self) -> Vec<u64> {
        let took = self.line_with("took ");
        assert!(self.process.wait().unwrap().success());
        took.split(' ').map(|micros| micros.parse().unwrap()).collect()
    }
}

struct Figures {
    takes: usize,
    per_second: u64,
    p50: Duration,
    p99: Duration,
    writes: u64,
    reads: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { takes, per_second, p50, p99, writes, reads } = self;
        let [writes, reads] = [writes, reads].map(|count| *count as f64 / *takes as f64);
        write!(
            f,
            "{per_second} takes/s, p50 {p50:.1?}, p99 {p99:.1?}; {writes:.2} writes and {reads:.2} reads a take"
        )
    }
}

/// So many processes with so many callers each, which pause between their takes.
fn run(processes: u64, callers: u64, pause: Duration, takes: u64) -> Figures {
    let server = DynamoServer::start();
    let front = AwsFront::to(server.addr());
    let url = format!("{}&deadline=30s", DynamoServer::url_through(front.addr(), "contended-item"));
    let task = format!("{callers} {} {takes} {url}", pause.as_micros());
    let mut workers: Vec<Worker> = (0..processes).map(|_| Worker::start(&task)).collect();
    workers.iter_mut().for_each(|worker| drop(worker.line_with("ready")));
    let before = (front.writes(), front.count("GetItem"));
    let begun = Instant::now();
    workers.iter_mut().for_each(Worker::go);
    let mut latencies: Vec<u64> = workers.into_iter().flat_map(Worker::latencies).collect();
    let elapsed = begun.elapsed();
    latencies.sort_unstable();
    let percentile = |part: usize| Duration::from_micros(latencies[(latencies.len() - 1) * part / 100]);
    Figures {
        takes: latencies.len(),
        per_second: latencies.len() as u64 * 1_000 / u64::try_from(elapsed.as_millis()).unwrap().max(1),
        p50: percentile(50),
        p99: percentile(99),
        writes: front.writes() - before.0,
        reads: front.count("GetItem") - before.1,
    }
}

/// 32 processes, 126 takes a second, five times.
#[test]
#[ignore = "prints latencies, for a machine that does nothing else"]
fn g12_latencies_of_thirty_two_processes() {
    for _ in 0..5 {
        println!("{}", run(32, 1, Duration::from_micros(254_000), 40));
    }
}

#[test]
#[ignore = "prints takes a second, for a machine that does nothing else"]
fn takes_of_one_process_and_of_sixteen() {
    for callers in [4, 64] {
        println!(
            "1 process,    {callers} callers each: {}",
            run(1, callers, Duration::ZERO, 3_200 / callers)
        );
        println!("16 processes, {callers} callers each: {}", run(16, callers, Duration::ZERO, 320 / callers));
    }
}
