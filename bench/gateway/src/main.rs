//! What `tollway gateway` adds to a call, beside nginx as a plain reverse proxy and, if it is installed, LiteLLM's proxy.
//!
//! All of them forward the same POST to the same server on loopback, in alternating rounds at a fixed rate. The load is
//! open: a call that is late counts from its planned time. Reported is the median of the rounds, less the direct call's.
//!
//! ```text
//! cargo build --profile dist -p tollway-cli
//! cargo run --profile dist -p tollway-gateway-bench                   # needs nginx; a quiet machine, 3 minutes
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

mod load;
mod proxies;
mod vendor;

use std::time::Duration;

use load::{Figures, calls, first_byte};
use proxies::Proxy;

/// Rounds of each contender, after one that warms up.
const ROUNDS: usize = 5;
/// The time of a round.
const ROUND: Duration = Duration::from_secs(4);
/// The same with `--quick`, which shows that everything runs, and measures nothing.
const QUICK_ROUND: Duration = Duration::from_millis(200);
/// Connections of the load.
const CONNECTIONS: usize = 16;

/// The most that the gateway may add, as a multiple of nginx's addition.
const TIMES_NGINX: f64 = 2.0;
/// The most that the gateway may add, as a part of LiteLLM's addition.
const PART_OF_LITELLM: f64 = 0.01;
/// The most microseconds that 99 of 100 calls may take longer, at 500 a second.
const P99_ADDED_MICROS: f64 = 500.0;
/// The most resident memory, in MB, with 16 connections.
const MEMORY_MB: f64 = 20.0;
/// The most microseconds by which the first byte of a stream may come later.
const FIRST_BYTE_MICROS: f64 = 1_000.0;

fn main() {
    let round = if std::env::args().any(|argument| argument == "--quick") { QUICK_ROUND } else { ROUND };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let vendor = vendor::start();
    let nginx = Proxy::nginx(vendor);
    let ours = Proxy::gateway(vendor);
    println!(
        "added per call over a direct one: median of {ROUNDS} rounds of {round:?}, {CONNECTIONS} connections"
    );
    println!("{:<26} {:>10} {:>10} {:>10} {:>8}", "", "p50 us", "p99 us", "CPU us", "MB");
    for rate in [500, 5_000] {
        let [theirs, own] = runtime.block_on(measure(vendor, [&nginx, &ours], rate, round));
        print_row("nginx", rate, &theirs);
        print_row("tollway gateway", rate, &own);
        judge("p50", own.p50, theirs.p50 * TIMES_NGINX);
        judge("CPU", own.cpu, theirs.cpu * TIMES_NGINX);
        if rate == 500 {
            judge("p99", own.p99, P99_ADDED_MICROS);
        }
        judge("memory in MB", own.memory, MEMORY_MB);
    }
    let direct = runtime.block_on(first_byte(vendor, "/events"));
    let through = runtime.block_on(first_byte(ours.address, "/vendor/events"));
    println!("{:<26} {:>10.0}", "first byte of a stream", through - direct);
    judge("first byte", through - direct, FIRST_BYTE_MICROS);
    if let Some(litellm) = Proxy::litellm(vendor) {
        let [theirs, own] = runtime.block_on(measure(vendor, [&litellm, &ours], 100, round));
        print_row("LiteLLM", 100, &theirs);
        print_row("tollway gateway", 100, &own);
        judge("p50", own.p50, theirs.p50 * PART_OF_LITELLM);
        judge("CPU", own.cpu, theirs.cpu * PART_OF_LITELLM);
    }
}

/// What each of two proxies adds.
async fn measure(
    vendor: std::net::SocketAddr,
    proxies: [&Proxy; 2],
    rate: u32,
    time: Duration,
) -> [Figures; 2] {
    let mut rounds: [Vec<Figures>; 2] = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        let direct = calls(vendor, "/v1/chat/completions", rate, time, CONNECTIONS).await;
        for (proxy, rounds) in proxies.into_iter().zip(&mut rounds) {
            let before = proxy.cpu();
            let through = calls(proxy.address, &proxy.path, rate, time, CONNECTIONS).await;
            let cpu = (proxy.cpu() - before).as_secs_f64() * 1e6 / through.calls;
            if round > 0 {
                rounds.push(Figures {
                    p50: through.p50 - direct.p50,
                    p99: through.p99 - direct.p99,
                    cpu,
                    memory: proxy.memory_mb(),
                    calls: through.calls,
                });
            }
        }
    }
    rounds.map(|rounds| {
        let median = |figure: fn(&Figures) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(figure).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Figures {
            p50: median(|round| round.p50),
            p99: median(|round| round.p99),
            cpu: median(|round| round.cpu),
            memory: median(|round| round.memory),
            calls: median(|round| round.calls),
        }
    })
}

fn print_row(name: &str, rate: u32, figures: &Figures) {
    let Figures { p50, p99, cpu, memory, .. } = figures;
    let name = format!("{name}, {rate}/s");
    println!("{name:<26} {p50:>10.0} {p99:>10.0} {cpu:>10.1} {memory:>8.1}");
}

fn judge(what: &str, figure: f64, most: f64) {
    let met = if figure <= most { "met" } else { "missed" };
    println!("    {what}: {figure:.1}, wanted at most {most:.1}: {met}");
}
