//! Eight processes share one limit, are killed on the way, and the network fails them: no window has one too many
//! (A1, B2, T34). The processes are this test itself, started again as workers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tollway::core::{Lease, WhenStoreFails};
use tollway::{Limiter, Policy, Taken};
use tollway_testkit::faults::{Fault, FaultProxy};
use tollway_testkit::servers::{PostgresServer, RedisServer};

/// A compressed minute.
const WINDOW_MICROS: u64 = 2_000_000;

/// So low that every window fills: only then is there something to exceed.
const LIMIT: u64 = 60;
const PROCESSES: usize = 8;

/// A round without network faults.
const FAIR: u32 = 1;

/// How often a test may run to fill a window.
const RUNS_MAX: u32 = 5;

/// Long enough for two whole windows after everybody has returned to the store.
const CALM: Duration = Duration::from_secs(6);

/// What tells a worker from the test.
const WORKER: &str = "TOLLWAY_TEST_WORKER";

/// Not a test: what the processes do. Takes as fast as it may and prints the end of each permit's window.
#[test]
fn worker() {
    let Ok(task) = std::env::var(WORKER) else { return };
    let (lease, url) = task.split_once(' ').unwrap();
    let lease = if lease == "leased" { Lease::On } else { Lease::Off };
    let policy = Policy::new("vendor", [format!("{LIMIT} requests / 2 seconds").as_str()]).unwrap();
    let policy = policy.with_when_store_fails(WhenStoreFails::Closed).with_lease(lease);
    let builder = Limiter::builder().with_policy(policy).unwrap();
    let limiter = builder.store_at(&url.parse().unwrap()).unwrap().build();
    std::thread::spawn(|| {
        // The parent has closed our input, or is gone.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let mut output = std::io::stdout();
    loop {
        match limiter.try_take("vendor").now() {
            Ok(Taken::Granted(granted)) => {
                let permit = granted.permit();
                assert!(!permit.degraded());
                let line = format!("granted {}\n", permit.good_until().unwrap().as_micros());
                output.write_all(line.as_bytes()).unwrap();
            }
            Ok(Taken::Denied(_)) => std::thread::sleep(Duration::from_millis(3)),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A worker process and the reader of its output.
struct Worker {
    child: Child,
    windows: JoinHandle<Vec<u64>>,
}

impl Worker {
    fn start(task: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["worker", "--exact", "--nocapture"]).env(WORKER, task);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let windows = std::thread::spawn(move || {
            let granted = |line: String| line.rsplit_once("granted ")?.1.parse::<u64>().ok();
            let ends = output.lines().map_while(Result::ok).filter_map(granted);
            // A lease counts its window's end from before the request: a little early, never late.
            ends.map(|end| end.div_ceil(WINDOW_MICROS)).collect()
        });
        Self { child, windows }
    }

    fn kill(mut self) -> Vec<u64> {
        self.child.kill().unwrap();
        self.ended()
    }

    fn end(mut self) -> Vec<u64> {
        drop(self.child.stdin.take());
        self.ended()
    }

    fn ended(mut self) -> Vec<u64> {
        self.child.wait().unwrap();
        self.windows.join().unwrap()
    }
}

/// Runs the processes for a while, kills one again and again, and counts what was granted in each window. The last windows
/// are calm: nobody is killed who was granted something and did not say so.
fn run(task: &str, mut weather: impl FnMut(u32)) -> BTreeMap<u64, u64> {
    let mut workers: Vec<Worker> = (0..PROCESSES).map(|_| Worker::start(task)).collect();
    let mut granted = Vec::new();
    let begun = Instant::now();
    for round in 0.. {
        std::thread::sleep(Duration::from_millis(400));
        if begun.elapsed() > Duration::from_secs(6) {
            break;
        }
        weather(round);
        if round % 3 == 1 {
            granted.extend(workers.remove(0).kill());
            workers.push(Worker::start(task));
        }
    }
    weather(FAIR);
    std::thread::sleep(CALM);
    granted.extend(workers.into_iter().flat_map(Worker::end));
    let mut windows = BTreeMap::new();
    granted.into_iter().for_each(|window| *windows.entry(window).or_default() += 1);
    windows
}

/// No window has one too many, and some have all. On a busy machine the processes may be too slow to fill one, and run again.
fn full_and_never_over(task: &str, mut weather: impl FnMut(u32)) {
    let mut windows = BTreeMap::new();
    for _ in 0..RUNS_MAX {
        windows = run(task, &mut weather);
        assert!(windows.values().all(|granted| *granted <= LIMIT), "one too many: {windows:?}");
        if windows.values().any(|granted| *granted == LIMIT) {
            return;
        }
    }
    panic!("no window was full: {windows:?}");
}

#[test]
fn a1_on_a_file() {
    let folder = tempfile::tempdir().unwrap();
    full_and_never_over(&format!("plain file:{}", folder.path().join("state").display()), |_| {});
}

#[test]
fn a1_on_redis_with_faults() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::to(redis.addr());
    let url = format!("redis://{}/0", proxy.addr());
    full_and_never_over(&format!("plain {url}"), |round| bad_weather(&proxy, round));
}

#[test]
fn b2_on_redis_with_leases_and_faults() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::to(redis.addr());
    let url = format!("redis://{}/0", proxy.addr());
    full_and_never_over(&format!("leased {url}"), |round| bad_weather(&proxy, round));
}

#[test]
fn b2_on_redis_with_leases_every_window_is_full() {
    let redis = RedisServer::start();
    full_and_never_over(&format!("leased {}", redis.url()), |_| {});
}

#[test]
fn a1_on_postgres_with_faults() {
    let postgres = PostgresServer::start();
    let proxy = FaultProxy::to(postgres.addr());
    let url = postgres.url().replace(&postgres.addr().to_string(), &proxy.addr().to_string());
    assert!(url.contains(&proxy.addr().to_string()), "{url}");
    full_and_never_over(&format!("plain {url}"), |round| bad_weather(&proxy, round));
}

#[cfg(feature = "dynamodb")]
#[test]
fn a1_on_dynamodb_with_faults() {
    let dynamo = tollway_testkit::servers::DynamoServer::start();
    let proxy = FaultProxy::to(dynamo.addr());
    let url = tollway_testkit::servers::DynamoServer::url_through(proxy.addr(), "processes");
    full_and_never_over(&format!("plain {url}"), |round| bad_weather(&proxy, round));
}

#[cfg(feature = "dynamodb")]
#[test]
fn b2_on_dynamodb_with_leases_and_faults() {
    let dynamo = tollway_testkit::servers::DynamoServer::start();
    let proxy = FaultProxy::to(dynamo.addr());
    let url = tollway_testkit::servers::DynamoServer::url_through(proxy.addr(), "processes");
    full_and_never_over(&format!("leased {url}"), |round| bad_weather(&proxy, round));
}

/// Every third round is fair.
fn bad_weather(proxy: &FaultProxy, round: u32) {
    match round % 6 {
        0 => proxy.set(Fault::LoseReplies { times: Some(20) }),
        2 => proxy.set(Fault::Reset),
        4 => proxy.set(Fault::Blackhole),
        _ => proxy.clear(),
    }
}
