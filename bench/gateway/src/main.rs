//! What `tollway gateway` adds to a call, beside nginx as a plain reverse proxy and, if it is installed, LiteLLM's proxy.
//!
//! All of them forward the same POST to the same server on loopback, in alternating rounds at a fixed rate. Each figure is the
//! median of the rounds, less the direct call's of the same round; CPU time is the proxy's, for one call. It prints a table
//! for docs/benchmarks.md.
//!
//! ```text
//! cargo run --profile dist -p tollway-gateway-bench                   # needs nginx and redis-server; 6 minutes
//! cargo run --profile dist -p tollway-gateway-bench -- --quick        # only that it runs
//! LITELLM=/path/to/venv/bin/litellm cargo run --profile dist -p tollway-gateway-bench
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program for the terminal: what cannot be measured ends the run"
)]

mod streams;
mod vendor;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tollway_gateway_bench::load::{Figures, calls, median, question};
use tollway_gateway_bench::proxies::{Proxy, Redis};

use streams::first_bytes;

/// Rounds of each contender, after one that warms up.
const ROUNDS: usize = 7;
/// The time of a round.
const ROUND: Duration = Duration::from_secs(4);
/// The same with `--quick`, which shows that everything runs, and measures nothing.
const QUICK: (usize, Duration) = (1, Duration::from_millis(200));
/// Connections of the load.
const CONNECTIONS: usize = 16;

/// The most that the gateway may add, as a multiple of nginx's addition.
const TIMES_NGINX: f64 = 2.0;
/// The most that the gateway may add, as a part of LiteLLM's addition.
const PART_OF_LITELLM: f64 = 0.01;
/// The most microseconds that 99 of 100 calls may take longer, at 500 a second.
const P99_ADDED_MICROS: f64 = 500.0;
/// The most resident memory, in MB.
const MEMORY_MB: f64 = 20.0;
/// The most microseconds by which the first byte of a stream may come later.
const FIRST_BYTE_MICROS: f64 = 1_000.0;

/// How long is measured.
struct Effort {
    rounds: usize,
    round: Duration,
}

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, round) = if is_quick { QUICK } else { (ROUNDS, ROUND) };
    let effort = Effort { rounds, round };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let vendor = vendor::start();
    let (nginx, ours) = (Proxy::nginx(vendor), Proxy::gateway(vendor, "memory:"));
    println!("Median of {rounds} rounds of {round:?}, {CONNECTIONS} connections.\n");
    println!("| added to a call | rival | its figure | ours | ratio | wanted |");
    println!("|---|---|---:|---:|---:|---|");
    for rate in [500, 5_000] {
        let [theirs, own] = runtime.block_on(measure(vendor, [&nginx, &ours], rate, &effort));
        let wanted = Some(TIMES_NGINX);
        row(&format!("CPU time, {rate}/s, us"), "nginx", theirs.cpu, own.cpu, wanted);
        row(&format!("p50, {rate}/s, us"), "nginx", theirs.p50, own.p50, wanted);
        row(&format!("p99, {rate}/s, us"), "nginx", theirs.p99, own.p99, None);
        if rate == 500 {
            bound("p99, 500/s, us", own.p99, P99_ADDED_MICROS);
        }
        if rate == 5_000 {
            row("resident memory, MB", "nginx", theirs.memory, own.memory, None);
            bound("resident memory, MB", own.memory, MEMORY_MB);
        }
    }
    let [theirs, own] = runtime.block_on(first_bytes(vendor, [&nginx, &ours], is_quick));
    row("first byte of a stream, us", "nginx", theirs, own, None);
    bound("first byte of a stream, us", own, FIRST_BYTE_MICROS);

    let redis = Redis::start();
    let shared = Proxy::gateway(vendor, &redis.url);
    let [in_memory, in_redis] = runtime.block_on(measure(vendor, [&ours, &shared], 500, &effort));
    row("with Redis: CPU time, 500/s, us", "memory:", in_memory.cpu, in_redis.cpu, None);
    row("with Redis: p50, 500/s, us", "memory:", in_memory.p50, in_redis.p50, None);

    if let Some(litellm) = Proxy::litellm(vendor) {
        let [theirs, own] = runtime.block_on(measure(vendor, [&litellm, &ours], 100, &effort));
        let wanted = Some(PART_OF_LITELLM);
        row("CPU time, 100/s, us", "LiteLLM", theirs.cpu, own.cpu, wanted);
        row("p50, 100/s, us", "LiteLLM", theirs.p50, own.p50, wanted);
        row("p99, 100/s, us", "LiteLLM", theirs.p99, own.p99, None);
        row("resident memory, MB", "LiteLLM", theirs.memory, own.memory, None);
    }
}

/// What each of two proxies adds.
async fn measure(vendor: SocketAddr, proxies: [&Proxy; 2], rate: u32, effort: &Effort) -> [Figures; 2] {
    let mut rounds: [Vec<Figures>; 2] = [Vec::new(), Vec::new()];
    let to_vendor: Arc<[_]> = [question(vendor, "/v1/chat/completions")].into();
    for round in 0..=effort.rounds {
        let direct = calls(vendor, &to_vendor, rate, effort.round, CONNECTIONS).await;
        for (proxy, rounds) in proxies.into_iter().zip(&mut rounds) {
            let message: Arc<[_]> = [question(proxy.address, &proxy.path)].into();
            let before = proxy.cpu();
            let through = calls(proxy.address, &message, rate, effort.round, CONNECTIONS).await;
            let cpu = (proxy.cpu() - before).as_secs_f64() * 1e6 / through.calls;
            if round > 0 {
                let (p50, p99) = (through.p50 - direct.p50, through.p99 - direct.p99);
                rounds.push(Figures { p50, p99, cpu, memory: proxy.memory_mb(), calls: through.calls });
            }
        }
    }
    rounds.map(|rounds| {
        let median_of = |figure: fn(&Figures) -> f64| median(rounds.iter().map(figure).collect());
        Figures {
            p50: median_of(|round| round.p50),
            p99: median_of(|round| round.p99),
            cpu: median_of(|round| round.cpu),
            memory: median_of(|round| round.memory),
            calls: median_of(|round| round.calls),
        }
    })
}

/// A figure beside a rival's, with the most that it may be of the rival's.
fn row(what: &str, rival: &str, theirs: f64, ours: f64, wanted: Option<f64>) {
    let ratio = ours / theirs;
    let wanted = wanted.map_or(String::new(), |most| format!("at most {most}: {}", word(ratio <= most)));
    println!("| {what} | {rival} | {theirs:.1} | {ours:.1} | {ratio:.3} | {wanted} |");
}

/// A figure with the most that it may be.
fn bound(what: &str, ours: f64, most: f64) {
    println!("| {what} | none | | {ours:.1} | | at most {most}: {} |", word(ours <= most));
}

fn word(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}
