//! What a call through `ApiClient` costs over plain reqwest, when it need not wait: CPU time of the client's thread.
//!
//! Both call the same server on loopback, in alternating rounds. The server has a thread of its own, which is not measured.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program for the terminal: what cannot be measured ends the run"
)]

mod server;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tollway::{Config, Limiter};
use tollway_client::ApiClient;

/// Calls of a round. Short, so that a slow minute of a shared machine hits both sides.
const ROUND: u32 = 2_000;

/// Rounds of each side: 20,000 calls.
const ROUNDS: usize = 10;

/// The most microseconds that a call may cost over reqwest.
const WANTED_MICROS: f64 = 20.0;

/// What limits the calls, by row. No call has to wait under any of them.
const ROWS: [(&str, &str); 3] = [
    ("a fixed limit", r#"limits = ["1G / second"]"#),
    (
        "a rate that adapts",
        "rate = { initial = 500_000, min = 1, max = 500_000, increase_step = 1, decrease_factor = 0.5 }",
    ),
    ("limits, tokens and slots", "limits = [\"1G / second\", \"1G tokens / second\"]\nconcurrency = 64"),
];

fn main() {
    let url = server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let http = reqwest::Client::new();
    println!("CPU time of one call in us, median of {ROUNDS} rounds of {ROUND} calls");
    println!("{:<36} {:>8} {:>8} {:>8} {:>6}", "", "reqwest", "client", "over", "ratio");
    for (name, keys) in ROWS {
        let client = client(&url, keys);
        let (mut plain, mut limited) = (Vec::new(), Vec::new());
        // The first round of each warms up.
        for round in 0..=ROUNDS {
            let theirs = runtime.block_on(measure(async || plain_call(&http, &url).await));
            let ours = runtime.block_on(measure(async || limited_call(&client).await));
            if round > 0 {
                plain.push(theirs);
                limited.push(ours);
            }
        }
        let over = median(limited.iter().zip(&plain).map(|(ours, theirs)| ours - theirs).collect());
        let (plain, limited) = (median(plain), median(limited));
        let met = if over <= WANTED_MICROS { "met" } else { "missed" };
        println!(
            "{name:<36} {plain:>8.1} {limited:>8.1} {over:>8.1} {:>6.2}  wanted {WANTED_MICROS} {met}",
            limited / plain
        );
    }
}

fn client(url: &str, keys: &str) -> ApiClient {
    let config = format!("[apis.vendor]\nbase_url = \"{url}\"\n{keys}\n");
    let config = Config::parse(&config).unwrap_or_else(|error| panic!("{error}"));
    let limiter = Limiter::builder().config(&config).unwrap().build();
    ApiClient::builder("vendor").limiter(&limiter).http(reqwest::Client::new()).build().unwrap()
}

async fn plain_call(http: &reqwest::Client, url: &str) {
    let response = http.get(format!("{url}/v1/users")).send().await.unwrap();
    assert_eq!(response.bytes().await.unwrap(), server::BODY);
}

async fn limited_call(client: &ApiClient) {
    let response = client.get("/v1/users").send().await.unwrap();
    assert_eq!(response.bytes().await.unwrap(), server::BODY);
}

/// The CPU time of this thread for one call, in microseconds.
async fn measure(call: impl AsyncFn()) -> f64 {
    let before = cpu_time();
    for _ in 0..ROUND {
        call().await;
    }
    cpu_time().saturating_sub(before).as_secs_f64() * 1e6 / f64::from(ROUND)
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.try_into().expect("a thread's CPU time is not negative")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
