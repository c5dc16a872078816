//! Sixteen processes on one hot subject in DynamoDB, 64 callers each: every take is answered, none is granted beyond the
//! limit, and a write carries many takes (A1, G3). The processes are this test itself, started again as workers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tollway::core::{Lease, WhenStoreFails};
use tollway::{Limiter, Policy, Taken};
use tollway_testkit::faults::AwsFront;
use tollway_testkit::servers::DynamoServer;

const PROCESSES: u64 = 16;
const CALLERS: u64 = 64;
const ROUNDS: u64 = 8;
const TAKES: u64 = PROCESSES * CALLERS * ROUNDS;

/// What tells a worker from the test: whether it leases, the limit, and the store.
const WORKER: &str = "TOLLWAY_TEST_WORKER";

/// Not a test: what the processes do. All callers take at once, again and again.
#[test]
fn worker() {
    let Ok(task) = std::env::var(WORKER) else { return };
    let mut words = task.splitn(3, ' ');
    let lease = if words.next() == Some("leased") { Lease::On } else { Lease::Off };
    let limit = format!("{} requests / day from first call", words.next().unwrap());
    let policy = Policy::new("hot", [limit.as_str()]).unwrap();
    let policy = policy.with_when_store_fails(WhenStoreFails::Closed).with_lease(lease);
    let builder = Limiter::builder().with_policy(policy).unwrap();
    let limiter = Arc::new(builder.store_at(&words.next().unwrap().parse().unwrap()).unwrap().build());
    // All processes begin together: the parent says when.
    std::io::stdin().read_exact(&mut [0]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let granted = runtime.block_on(async {
        let caller = |limiter: Arc<Limiter>| async move {
            let mut granted = 0;
            for _ in 0..ROUNDS {
                match limiter.try_take("hot").await.unwrap() {
                    Taken::Granted(taken) if !taken.degraded() => granted += 1,
                    Taken::Denied(denied) if !denied.degraded() => {}
                    other => panic!("not decided by the store: {other:?}"),
                }
            }
            granted
        };
        let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(caller(Arc::clone(&limiter)))).collect();
        let mut granted = 0u64;
        for caller in callers {
            granted += caller.await.unwrap();
        }
        granted
    });
    println!("granted {granted}");
}

struct Worker(Child);

impl Worker {
    fn start(task: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["worker", "--exact", "--nocapture"]).env(WORKER, task);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn go(&mut self) {
        self.0.stdin.take().unwrap().write_all(b"!").unwrap();
    }

    /// How many takes it was granted; all of them were answered.
    fn granted(mut self) -> u64 {
        let output = BufReader::new(self.0.stdout.take().unwrap());
        let granted = |line: String| line.rsplit_once("granted ")?.1.parse::<u64>().ok();
        let granted = output.lines().map_while(Result::ok).filter_map(granted).last();
        assert!(self.0.wait().unwrap().success(), "a take was not answered by the store");
        granted.unwrap()
    }
}

/// How many takes were granted, and how many writes that took.
fn run(lease: &str, limit: u64) -> (u64, u64) {
    let server = DynamoServer::start();
    let front = AwsFront::to(server.addr());
    let url = format!("{}&deadline=30s", DynamoServer::url_through(front.addr(), "hot-subject"));
    let mut workers: Vec<Worker> =
        (0..PROCESSES).map(|_| Worker::start(&format!("{lease} {limit} {url}"))).collect();
    workers.iter_mut().for_each(Worker::go);
    let granted = workers.into_iter().map(Worker::granted).sum();
    println!(
        "{lease}, limit {limit}: {granted} granted, {} writes, {} reads",
        front.writes(),
        front.count("GetItem")
    );
    (granted, front.writes())
}

#[test]
fn every_take_is_granted_and_costs_at_most_one_write() {
    let (granted, writes) = run("plain", 1_000_000);
    assert_eq!(granted, TAKES);
    assert!(writes <= granted, "{writes} writes for {granted} takes");
}

#[test]
fn grants_never_exceed_the_limit() {
    let (granted, writes) = run("plain", 1_000);
    assert_eq!(granted, 1_000);
    assert!(writes <= granted, "{writes} writes for {granted} takes");
}

#[test]
fn with_leases_ten_takes_cost_at_most_one_write() {
    let (granted, writes) = run("leased", 1_000_000);
    assert_eq!(granted, TAKES);
    assert!(writes * 10 <= granted, "{writes} writes for {granted} takes");
}
