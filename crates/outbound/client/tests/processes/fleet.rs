//! The worker processes.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tollway::{Config, Limiter};
use tollway_client::ApiClient;

/// The config of a worker. It tells a worker from the test.
const WORKER: &str = "TOLLWAY_TEST_WORKER";
/// The number of a worker.
const NUMBER: &str = "TOLLWAY_TEST_NUMBER";

/// Calls that a worker makes at the same time.
const CALLS: usize = 4;

/// The vendor counts a token for so many bytes of a body: a call of worker 3 has 3 tokens in its log.
const BYTES_PER_TOKEN: usize = 4;

/// How long calls may run on after a worker was told to end: those that still wait for a permit are left.
const GRACE: Duration = Duration::from_secs(2);

/// Not a test: what the processes do. Calls as fast as it may, until its input is closed; then it prints its report.
#[test]
fn worker() {
    let Ok(config) = std::env::var(WORKER) else { return };
    let number: usize = std::env::var(NUMBER).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(call_until_told(&config, number));
    std::process::exit(0);
}

async fn call_until_told(config: &str, number: usize) {
    let limiter = limiter(config);
    let client = ApiClient::of(&limiter, "vendor").unwrap();
    let (ends, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..CALLS {
        let (client, ends, failed) = (client.clone(), Arc::clone(&ends), Arc::clone(&failed));
        calls.spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                let call = client.post("/v1/pages").body(vec![b'x'; number * BYTES_PER_TOKEN]);
                if let Err(error) = call.send().await {
                    eprintln!("worker {number}: {error}");
                    failed.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        });
    }
    // The parent has closed our input, or is gone.
    tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0])).await.unwrap().unwrap();
    ends.store(true, Ordering::Relaxed);
    let _ = tokio::time::timeout(GRACE, async { while calls.join_next().await.is_some() {} }).await;
    println!("report {} {}", limiter.incidents().len(), failed.load(Ordering::Relaxed));
}

/// A limiter as the workers have one.
pub(crate) fn limiter(config: &str) -> Limiter {
    let config = Config::parse(config).unwrap_or_else(|error| panic!("{error}"));
    Limiter::builder().config(&config).unwrap().build()
}

/// Processes that call. Dropping them ends them.
pub(crate) struct Fleet(Vec<Worker>);

struct Worker {
    child: Child,
    report: JoinHandle<Option<WorkersReport>>,
}

/// What workers saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkersReport {
    pub(crate) incidents: u64,
    pub(crate) failed: u64,
}

impl Fleet {
    /// Starts so many workers, numbered from 1.
    pub(crate) fn start(workers: usize, config: &str) -> Self {
        Self((1..=workers).map(|number| Worker::start(config, number)).collect())
    }

    /// Kills the first worker with SIGKILL.
    pub(crate) fn kill_one(&mut self) {
        let mut worker = self.0.remove(0);
        worker.child.kill().unwrap();
        worker.child.wait().unwrap();
    }

    /// Ends all, and adds up what they report. Fails if one of them crashed.
    pub(crate) fn end(mut self) -> WorkersReport {
        let workers = std::mem::take(&mut self.0);
        let mut workers: Vec<Worker> = workers.into_iter().collect();
        workers.iter_mut().for_each(|worker| drop(worker.child.stdin.take()));
        let mut total = WorkersReport::default();
        for mut worker in workers {
            let status = worker.child.wait().unwrap();
            assert!(status.success(), "a worker crashed: {status}");
            let report = worker.report.join().unwrap().unwrap();
            total.incidents += report.incidents;
            total.failed += report.failed;
        }
        total
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for worker in &mut self.0 {
            let _ = worker.child.kill();
            let _ = worker.child.wait();
        }
    }
}

impl Worker {
    fn start(config: &str, number: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["fleet::worker", "--exact", "--nocapture"]);
        command.env(WORKER, config).env(NUMBER, number.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let report =
            std::thread::spawn(move || output.lines().map_while(Result::ok).find_map(|line| read(&line)));
        Self { child, report }
    }
}

fn read(line: &str) -> Option<WorkersReport> {
    let (incidents, failed) = line.rsplit_once("report ")?.1.split_once(' ')?;
    Some(WorkersReport { incidents: incidents.parse().ok()?, failed: failed.parse().ok()? })
}
