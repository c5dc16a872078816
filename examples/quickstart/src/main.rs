//! Eight workers share one vendor's limit: first without Tollway, then with it.
//!
//! The vendor lives in this program and grants 200 calls a minute. Its minute is squeezed into two seconds, its clock is
//! not quite ours, and it counts for itself: call 201 is refused. Half way through, one worker is stopped in the middle of
//! whatever it does. Run it with `cargo run --release -p quickstart`.
#![allow(clippy::disallowed_methods, reason = "the vendor has a clock of its own")]
#![allow(clippy::print_stdout, reason = "this is what it is for")]

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::sleep;
use tollway::{Limiter, Policy, Span, TakeError};

const QUOTA: u64 = 200;
/// The vendor's minute.
const MINUTE: Duration = Duration::from_secs(2);
/// How far its clock is behind ours.
const BEHIND: Duration = Duration::from_millis(40);
const WORKERS: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A limit is text, as people say it. Windows of two seconds begin at multiples of the epoch, as the vendor's do.
    let policy = Policy::new("vendor", ["200 requests / 2 seconds"])?
        // Nothing goes out in the first and last 100 ms of a window. A call that is on its way for a while, to a vendor
        // whose clock is a little off, still counts where it was granted. It costs no quota, only a moment.
        .with_edge(Span::from_millis(100));
    let limiter = Limiter::builder().with_policy(policy)?.build();

    println!("{WORKERS} workers, one vendor, {QUOTA} calls a minute. A minute takes {MINUTE:?} here.");
    let without = work("without Tollway", None, 1).await;
    let with = work("with Tollway", Some(limiter), 4).await;

    println!("\n                   calls   refused by the vendor   share of the quota used");
    for (name, tally, minutes) in [("without Tollway", without, 1), ("with Tollway", with, 4)] {
        let share = tally.served * 100 / (QUOTA * minutes);
        println!("{name:<16} {:>7} {:>23} {share:>24}%", tally.served + tally.refused, tally.refused);
    }
    if with.refused > 0 {
        return Err("the vendor refused calls that were granted".into());
    }
    Ok(())
}

/// What one worker does, for ever.
async fn worker(vendor: Arc<Vendor>, limiter: Option<Limiter>) -> Result<(), TakeError> {
    let Some(limiter) = limiter else {
        loop {
            vendor.call().await;
        }
    };
    loop {
        // One request. If the window is used up, the answer is a place in the queue with an exact time, and this sleeps until
        // then: no polling, first come first served. Whoever is stopped while it waits gives its place back.
        let mut permit = limiter.take("vendor").await?;
        // The last check before the call goes out. Free, unless the permit grew too old for its window: then it takes
        // again. Without it, a permit of second 59.9 would be used in the next minute.
        permit.begin().await?;
        vendor.call().await;
    }
}

/// Lets the workers loose for some of the vendor's minutes, shows them, and adds up what the vendor counted.
async fn work(title: &str, limiter: Option<Limiter>, minutes: u64) -> Tally {
    let vendor = Arc::new(Vendor::default());
    let first = vendor.minute() + 1;
    sleep(vendor.until(first)).await;
    println!("\n{title}:");
    let start = |_| tokio::spawn(worker(Arc::clone(&vendor), limiter.clone()));
    let workers: Vec<_> = (0..WORKERS).map(start).collect();
    for number in 1..=minutes {
        show(&vendor, number, first + number - 1).await;
        if number * 2 == minutes {
            workers[0].abort();
            println!("  one worker is stopped");
        }
    }
    workers.iter().for_each(|worker| worker.abort());
    let counted = vendor.counted.lock().unwrap_or_else(PoisonError::into_inner);
    counted.range(first..first + minutes).fold(Tally::default(), |sum, (_, tally)| Tally {
        served: sum.served + tally.served,
        refused: sum.refused + tally.refused,
    })
}

/// Shows one minute: as it goes on a terminal, elsewhere when it is over.
async fn show(vendor: &Vendor, number: u64, minute: u64) {
    loop {
        let left = vendor.until(minute + 1);
        let Tally { served, refused } = vendor.tally(minute);
        let bar = "█".repeat((served * 40 / QUOTA) as usize);
        let line = format!("  minute {number}  {bar:░<40}  {served:>3} served  {refused:>4} refused");
        if left.is_zero() {
            println!("{}{line}", if std::io::stdout().is_terminal() { "\r" } else { "" });
            return;
        }
        if std::io::stdout().is_terminal() {
            print!("\r{line}");
            let _ = std::io::stdout().flush();
        }
        sleep(left.min(Duration::from_millis(50))).await;
    }
}

#[derive(Clone, Copy, Default)]
struct Tally {
    served: u64,
    refused: u64,
}

/// Somebody else's API. It knows nothing of Tollway.
#[derive(Default)]
struct Vendor {
    counted: Mutex<BTreeMap<u64, Tally>>,
}

impl Vendor {
    async fn call(&self) {
        sleep(Duration::from_millis(10)).await; // there
        let minute = self.minute();
        {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            let tally = counted.entry(minute).or_default();
            if tally.served < QUOTA { tally.served += 1 } else { tally.refused += 1 }
        }
        sleep(Duration::from_millis(10)).await; // and back
    }

    fn tally(&self, minute: u64) -> Tally {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.get(&minute).copied().unwrap_or_default()
    }

    /// Which minute it is there.
    fn minute(&self) -> u64 {
        (self.now().as_millis() / MINUTE.as_millis()) as u64
    }

    fn until(&self, minute: u64) -> Duration {
        (MINUTE * minute as u32).saturating_sub(self.now())
    }

    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(BEHIND)
    }
}
