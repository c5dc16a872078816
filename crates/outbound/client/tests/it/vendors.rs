//! The client in front of each vendor, without a profile and with `rate = "auto"`: what it recognises, which waits it
//! keeps, and how often it is refused. `docs/guide/vendors.md` has the table.

use std::time::Duration;

use tokio::task::JoinSet;
use tollway::Span;
use tollway_client::{ApiClient, Attempt, Attempts, RefusalKind};
use tollway_core::Timestamp;
use tollway_vendor::Outcome;
use tollway_vendor::server::{LoggedCall, VendorDialect, VendorServer};

use crate::{limiter, vendor_with};

use RefusalKind::{Concurrency, DailyQuota, Overload, Rate};

/// A simulated vendor, and one of the ways in which it refuses.
#[derive(Clone, Copy, Debug)]
struct VendorCase {
    dialect: &'static str,
    refuses: &'static str,
    kind: RefusalKind,
    tells_wait: bool,
}

/// One for each refusal of the vendors' own table.
fn cases() -> impl Iterator<Item = VendorCase> {
    VendorDialect::all().flat_map(|dialect| {
        dialect.refusals().iter().map(|refusal| VendorCase {
            dialect: dialect.name(),
            refuses: refusal.words,
            kind: refusal.kind,
            tells_wait: refusal.tells_wait,
        })
    })
}

/// A vendor that refuses some of a few calls.
async fn strict_vendor(case: VendorCase) -> VendorServer {
    let limits = match case.kind {
        Concurrency => "1 concurrent",
        Overload => "1000 / second",
        _ => "1 / 3 seconds",
    };
    vendor_with(&[limits], case.dialect, |settings| match case.kind {
        // Three calls a second overlap.
        Concurrency => settings.terms.latency = (Span::from_secs(1), Span::from_secs(1)),
        Overload => settings.terms.errors = 500,
        _ => {}
    })
    .await
}

/// With one pool of connections for all: reading the system's certificates takes its time.
fn client_of(vendor: &VendorServer, http: &reqwest::Client) -> ApiClient {
    let limiter = limiter(&vendor.url(), "rate = \"auto\"");
    ApiClient::builder("test").limiter(&limiter).http(http.clone()).build().unwrap()
}

fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

/// How long a call waits at Anthropic, whose headers tell quotas of a minute: after a refusal, a quota of one call is one call
/// a minute.
const A_MINUTES_QUOTA: Duration = Duration::from_secs(5);

/// The attempts of calls until some were refused. Every call is answered in the end.
async fn attempts_at(case: VendorCase, http: reqwest::Client) -> Vec<Vec<Attempt>> {
    let vendor = strict_vendor(case).await;
    let client = client_of(&vendor, &http);
    let mut attempts = Vec::new();
    let is_slow = case.dialect == "anthropic" && case.kind == Rate;
    let max_time = if is_slow { A_MINUTES_QUOTA } else { Duration::from_secs(600) };
    while attempts.iter().flatten().all(|attempt: &Attempt| attempt.refusal.is_none()) {
        let mut calls = JoinSet::new();
        for _ in 0..3 {
            calls.spawn(client.get("/v1/users").max_retries(100).max_time(max_time).send());
        }
        while let Some(answer) = calls.join_next().await {
            match answer.unwrap() {
                Ok(response) => {
                    assert!(response.status().is_success(), "{case:?}: {}", response.status());
                    attempts.push(Attempts::of(response.extensions()).to_vec());
                }
                Err(error) if is_slow => attempts.push(error.attempts),
                Err(error) => panic!("{case:?}: {error}"),
            }
        }
    }
    if case.kind == Concurrency {
        let snapshot = client.limiter().snapshot().await.unwrap();
        assert_eq!(snapshot.cooldown_until, None, "{case:?}: other calls wait");
    }
    attempts
}

/// D1, D2: each vendor is recognised without a profile, and the waits that it tells are kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_vendor_is_recognised_and_its_waits_are_kept() {
    let mut running = JoinSet::new();
    let http = http();
    for case in cases() {
        let http = http.clone();
        running.spawn(async move { (case, attempts_at(case, http).await) });
    }
    while let Some(done) = running.join_next().await {
        let (case, calls) = done.unwrap();
        for call in calls {
            for attempt in call.iter().filter(|attempt| attempt.refusal.is_some()) {
                assert_eq!(attempt.refusal, Some(case.kind), "{case:?}: {attempt}");
                assert_eq!(attempt.wait.is_some(), case.tells_wait, "{case:?}: {attempt}");
            }
            for (attempt, next) in call.iter().zip(call.iter().skip(1)) {
                let wait = attempt.wait.unwrap_or_default();
                assert!(next.at.since(attempt.at) >= Span::from(wait), "{case:?}: {attempt}; {next}");
            }
        }
    }
}

/// The page shows what the test above tests.
#[test]
fn the_table_of_vendors_is_the_one_in_the_guide() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guide/vendors.md");
    let page = std::fs::read_to_string(page).unwrap();
    for case in cases() {
        let wait = if case.tells_wait { "told, and kept" } else { "none told" };
        let row = format!("| `{}` | {} | {} | {wait} |", case.dialect, case.refuses, words_of(case.kind));
        assert!(page.contains(&row), "docs/guide/vendors.md lacks:\n{row}");
    }
    let rows = page.lines().filter(|line| line.ends_with("told |") || line.ends_with("kept |")).count();
    assert_eq!(rows, cases().count(), "docs/guide/vendors.md has rows of its own");
}

fn words_of(kind: RefusalKind) -> &'static str {
    match kind {
        Rate => "rate",
        Concurrency => "concurrency",
        DailyQuota => "daily quota",
        Overload => "overload",
        RefusalKind::NoAccess => "no access",
        RefusalKind::Lock => "lock",
    }
}

/// The limits of the vendors below, and the calls that the first allow in a stretch. Anthropic's is one of a minute.
const RATE: (&str, u64) = ("5 / second bucket", 10);
const MINUTES_RATE: (&str, u64) = ("300 / minute bucket", 310);
const SLOTS: &str = "3 concurrent";

/// As many calls as the client lets through, from so many callers.
const CALLERS: usize = 8;

/// The stretch over which the highest rate is taken: an excess may last two seconds.
const STRETCH: Span = Span::from_secs(2);

/// What a vendor saw.
struct Seen {
    case: VendorCase,
    calls: usize,
    refused: usize,
    /// The most calls in a stretch, as a share of what the vendor allows, in percent.
    highest: u64,
}

async fn busy_vendor(case: VendorCase, length: Duration, http: reqwest::Client) -> Seen {
    let is_rate = case.kind == Rate;
    let (limit, allowed) = match case {
        VendorCase { kind: Concurrency, .. } => (SLOTS, 0),
        VendorCase { dialect: "anthropic", .. } => MINUTES_RATE,
        _ => RATE,
    };
    let vendor = vendor_with(&[limit], case.dialect, |settings| {
        let millis = if is_rate { 20 } else { 200 };
        settings.terms.latency = (Span::from_millis(millis), Span::from_millis(2 * millis));
    })
    .await;
    let client = client_of(&vendor, &http);
    let mut callers = JoinSet::new();
    let clock = client.limiter().limiter().clock();
    let end = clock.now().plus(length.into());
    for _ in 0..CALLERS {
        let (client, clock) = (client.clone(), clock.clone());
        callers.spawn(async move {
            while clock.now() < end {
                // A call that does not get through in time is not an error of this test.
                let _ = client.get("/v1/users").max_time(Duration::from_secs(30)).send().await;
            }
        });
    }
    tokio::time::sleep(length).await;
    callers.abort_all();
    let calls: Vec<LoggedCall> = vendor.calls();
    let refused = calls.iter().filter(|call| call.outcome == Outcome::Refused).count();
    let highest = (busiest(&calls) * 100).checked_div(allowed).unwrap_or(0);
    Seen { case, calls: calls.len(), refused, highest }
}

/// The most calls in any stretch, refused or not.
fn busiest(calls: &[LoggedCall]) -> u64 {
    let times: Vec<Timestamp> = calls.iter().map(|call| call.at).collect();
    let within = |from: usize| times[from..].iter().take_while(|at| at.since(times[from]) < STRETCH).count();
    (0..times.len()).map(within).max().unwrap_or(0) as u64
}

/// D1: how often each vendor refuses, and how far the rate goes above its own. Two seconds by default, without bounds: those
/// are for `TOLLWAY_VENDOR_SECONDS=60`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout, reason = "it prints figures")]
async fn each_vendor_refuses_rarely() {
    let seconds =
        std::env::var("TOLLWAY_VENDOR_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let mut running = JoinSet::new();
    let http = http();
    for case in cases().filter(|case| matches!(case.kind, Rate | Concurrency)) {
        running.spawn(busy_vendor(case, Duration::from_secs(seconds), http.clone()));
    }
    let mut wrong = String::new();
    while let Some(seen) = running.join_next().await {
        let Seen { case, calls, refused, highest } = seen.unwrap();
        let row =
            format!("| `{}` | {} | {calls} | {refused} | {highest} % |", case.dialect, words_of(case.kind));
        println!("{row}");
        assert!(calls > 0, "{row}");
        let bound = if case.kind == Concurrency { 10 } else { (calls * 30 / 1_000).max(3) };
        if seconds >= 60 && (refused > bound || highest > 200) {
            wrong.push_str(&format!("\n{row} at most {bound} refused, 200 %"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
