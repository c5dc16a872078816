//! A soak: pipelines on SQLite, Postgres and SQS side by side, while everything underneath them goes away and comes back.
//! `scripts/soak` runs it and says how long.

mod disk;
mod fault;
mod outcome;
mod rig;
mod track;
mod windows;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollway_core::Span;

use self::rig::Rig;
use crate::now;

/// How long the faults last, in minutes.
const MINUTES: &str = "TOLLWAY_SOAK_MINUTES";
/// Draws other faults.
const SEED: &str = "TOLLWAY_SOAK_SEED";

/// The quota of each pipeline, in windows that are short enough for many of them, and much less than two cores do beside the
/// servers.
const LIMIT: &str = "100 requests / 10 seconds";
const QUOTA: u64 = 100;
const WINDOW: Span = Span::from_secs(10);

/// What must be used of the windows in which store and engine answered throughout, in percent.
const SHARE_MIN: u64 = 97;

/// Between two lines of progress.
const SAYS_EVERY: Span = Span::from_secs(30);

/// What a pipeline is doing, for the lines of progress.
#[derive(Clone, Default)]
struct Doing(Arc<Mutex<String>>);

impl Doing {
    fn is(&self, what: String) {
        *self.0.lock().unwrap() = what;
    }

    fn says(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

/// P2, P4, P8, B13: nothing is lost, nothing is committed twice, no window is exceeded, and windows without an outage are used.
#[test]
#[ignore = "takes ten minutes and more: scripts/soak"]
fn pipelines_use_their_quota_between_outages_and_lose_nothing() {
    let length = Span::from_secs(setting(MINUTES, 10) * 60);
    let seed = setting(SEED, now().as_micros());
    println!("soak: {length} of faults; to draw the same faults: {SEED}={seed}");
    let start = now();
    let rigs = [Rig::sqlite, Rig::postgres, Rig::sqs, Rig::stepped];
    let running: Vec<_> = (seed..)
        .zip(rigs)
        .map(|(seed, rig)| {
            let doing = Doing::default();
            let told = doing.clone();
            (doing, std::thread::spawn(move || track::run(&rig(), seed, start.plus(length), &told)))
        })
        .collect();
    let mut said = start;
    while running.iter().any(|(_, pipeline)| !pipeline.is_finished()) {
        std::thread::sleep(Duration::from_millis(200));
        if now().since(said) >= SAYS_EVERY {
            said = now();
            say(said.since(start), length, running.iter().map(|(doing, _)| doing));
        }
    }
    let ended: Vec<_> = running.into_iter().map(|(doing, pipeline)| (doing, pipeline.join())).collect();
    println!("soak: report");
    let mut wrong = Vec::new();
    for (doing, ended) in ended {
        match ended {
            Ok(outcome) => {
                println!("{outcome}");
                wrong.extend(outcome.wrong());
            }
            Err(_) => wrong.push(format!("it stopped while {}; see above", doing.says())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn say<'d>(passed: Span, length: Span, doing: impl Iterator<Item = &'d Doing>) {
    let seconds = passed.as_micros() / 1_000_000;
    println!("soak: {seconds} s of {} s", length.as_micros() / 1_000_000);
    doing.for_each(|doing| println!("  {}", doing.says()));
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}
