//! Processes that share one quota: 200 calls a minute, in minutes of five seconds. What they do is counted at the vendor.

use tollway_core::{Span, Timestamp};
use tollway_testkit::servers::RedisServer;
use tollway_vendor::Outcome;
use tollway_vendor::server::{VendorServer, VendorSettings};

use crate::child::{Enqueues, Handlers, Plan};
use crate::lab::{Jobs, Lab};
use crate::now;

const LIMIT: &str = "200 requests / 5 seconds";
const QUOTA: usize = 200;
const WINDOW: Span = Span::from_secs(5);

/// How often it is tried to watch windows in which the machine keeps up.
const ROUNDS_MAX: u64 = 3;

/// At least this share of a window is used, in percent.
const SHARE: usize = 98;

/// The windows that are watched.
fn windows() -> u64 {
    std::env::var("TOLLWAY_WINDOWS").map_or(2, |windows| windows.parse().unwrap())
}

/// P3: two pipelines, each with a file of its own.
#[test]
fn two_pipelines_with_files_fill_one_quota_and_never_exceed_it() {
    fill(&[Lab::new(Jobs::Sqlite), Lab::new(Jobs::Sqlite)]);
}

/// P3, P8: two processes that share their jobs, too.
#[test]
fn two_processes_on_postgres_fill_one_quota_and_never_exceed_it() {
    fill(&[Lab::new(Jobs::postgres())]);
}

/// Two processes, one of the first lab and one of the last, share a limit in Redis.
fn fill(labs: &[Lab]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let redis = RedisServer::start();
    let settings = VendorSettings::new([LIMIT]).unwrap();
    let vendor = runtime.block_on(VendorServer::start(settings)).unwrap();
    let plan = |lab: &Lab, worker| Plan {
        store: redis.url(),
        limit: LIMIT.to_owned(),
        vendor: vendor.url(),
        handlers: Handlers::Http,
        concurrency: 20,
        // More than all rounds can use.
        enqueues: Enqueues::AtOnce(QUOTA as u64 * (windows() + 2) * ROUNDS_MAX),
        ..lab.plan(worker, 0)
    };
    let (first, last) = (&labs[0], &labs[labs.len() - 1]);
    let processes = [first.start(plan(first, "one")), last.start(plan(last, "two"))];
    let kept_up = (1..=ROUNDS_MAX).any(|_| {
        let from = Timestamp::from_micros(now().as_micros().next_multiple_of(WINDOW.as_micros()));
        std::thread::sleep(from.plus(WINDOW.times(windows())).since(now()).into());
        // Also the one before, which is not full: the processes start in it.
        let starts = (0..=windows()).map(|n| from.minus(WINDOW).plus(WINDOW.times(n)));
        let used: Vec<Used> = starts.map(|start| used(&vendor, start)).collect();
        println!("{used:?}");
        judge(&used)
    });
    drop(processes);
    if !kept_up {
        println!("the machine is too slow to tell whether windows are filled");
    }
}

/// Fails if a window was exceeded, or not filled although there was time. False: the machine was too slow to tell.
fn judge(used: &[Used]) -> bool {
    let mut kept_up = true;
    for pair in used.windows(2) {
        let [before, window] = pair else { continue };
        // A call that is sent at the very end of a window arrives in the next one. Windows are used up in a fifth of their
        // time, unless the machine is far too slow.
        let slipped = before.last > Span::from_micros(WINDOW.as_micros() / 10 * 9);
        assert!(slipped || window.refused == 0, "more than {QUOTA} calls in a window: {used:?}");
        let too_slow = window.last > Span::from_micros(WINDOW.as_micros() / 2);
        let filled = window.accepted * 100 >= QUOTA * SHARE;
        assert!(too_slow || filled, "a window is not filled: {used:?}");
        kept_up &= window.refused == 0 && filled;
    }
    kept_up
}

/// The use of a window.
#[derive(Debug)]
struct Used {
    accepted: usize,
    refused: usize,
    /// When its last call arrived, from its start.
    last: Span,
}

fn used(vendor: &VendorServer, from: Timestamp) -> Used {
    let to = from.plus(WINDOW);
    let [accepted, refused] =
        [Outcome::Accepted, Outcome::Refused].map(|outcome| vendor.count_between(outcome, from, to));
    let calls = vendor.calls().into_iter().map(|call| call.at).filter(|at| (from..to).contains(at));
    Used { accepted, refused, last: calls.max().map_or(Span::ZERO, |at| at.since(from)) }
}
