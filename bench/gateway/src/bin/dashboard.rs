//! What the dashboard costs a server: 10,000 policies under 5,000 takes a second, with five viewers, with none, and without a
//! dashboard, in alternating rounds. Each figure is the median of the rounds. It prints a table for docs/benchmarks.md.
//!
//! ```text
//! cargo run --profile dist -p tollway-gateway-bench --bin tollway-dashboard-bench               # 3 minutes
//! cargo run --profile dist -p tollway-gateway-bench --bin tollway-dashboard-bench -- --quick    # only that it runs
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program for the terminal: what cannot be measured ends the run"
)]

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollway_gateway_bench::load::{calls, median, post};
use tollway_gateway_bench::proxies::{Proxy, free};

const POLICIES: usize = 10_000;
const TAKES_PER_SECOND: u32 = 5_000;
const CONNECTIONS: usize = 16;
const VIEWERS: usize = 5;

/// Rounds of each contender, after one that warms up.
const ROUNDS: usize = 9;
/// The time of a round.
const ROUND: Duration = Duration::from_secs(5);
/// The same with `--quick`, which shows that everything runs, and measures nothing.
const QUICK: (usize, Duration) = (1, Duration::from_millis(200));
/// How long a server gets to notice that viewers came or went.
const SETTLE: Duration = Duration::from_secs(2);

/// The most that five viewers may cost, in hundredths of a core.
const PERCENT_OF_CORE: f64 = 3.0;
/// The most by which the slowest of 100 takes may become slower.
const P99_RATIO: f64 = 1.05;
/// The most milliseconds that `/metrics` may take.
const METRICS_MS: f64 = 50.0;

/// What one round shows.
struct Round {
    percent_of_core: f64,
    p99: f64,
}

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, time) = if is_quick { QUICK } else { (ROUNDS, ROUND) };
    let config: String = (0..POLICIES).fold(String::new(), |mut config, number| {
        writeln!(config, "[policies.p{number}]\nlimits = [\"1000 requests / minute\"]").unwrap();
        config
    });
    let [admin, other] = [free(), free()];
    let (with, without) = (Proxy::server(&config, admin, "read"), Proxy::server(&config, other, "off"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut measured: [Vec<Round>; 3] = Default::default();
        for round in 0..=rounds {
            let contenders = [(&with, VIEWERS), (&with, 0), (&without, 0)];
            for ((server, viewers), measured) in contenders.into_iter().zip(&mut measured) {
                let one = measure(server, admin, viewers, time).await;
                if round > 0 {
                    measured.push(one);
                }
            }
        }
        let metrics = metrics_ms(admin).await;
        print(&measured, metrics, rounds, time);
    });
}

async fn measure(server: &Proxy, admin: SocketAddr, viewers: usize, time: Duration) -> Round {
    let mut watching = JoinSet::new();
    for _ in 0..viewers {
        watching.spawn(watch(admin));
    }
    sleep(SETTLE.min(time)).await;
    let message = |number: usize| {
        // Neighbours in time are no neighbours by name.
        let body = format!("{{\"policy\":\"p{}\"}}", number * 7_919 % POLICIES);
        post(server.address, &server.path, &body)
    };
    let messages: Arc<[Vec<u8>]> = (0..POLICIES).map(message).collect();
    let before = server.cpu();
    let figures = calls(server.address, &messages, TAKES_PER_SECOND, time, CONNECTIONS).await;
    let cpu = (server.cpu() - before).as_secs_f64();
    watching.shutdown().await;
    Round { percent_of_core: 100.0 * cpu / time.as_secs_f64(), p99: figures.p99 }
}

/// Reads the feed until it is dropped.
async fn watch(admin: SocketAddr) {
    let mut stream = TcpStream::connect(admin).await.unwrap();
    let request = format!("GET /v1/live HTTP/1.1\r\nhost: {admin}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = vec![0; 64 * 1_024];
    let first = stream.read(&mut bytes).await.unwrap();
    assert!(bytes[..first].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&bytes[..first]));
    while stream.read(&mut bytes).await.unwrap() > 0 {}
    panic!("the feed has ended");
}

/// The median time of `/metrics`, whole.
#[allow(clippy::disallowed_methods, reason = "it measures time")]
async fn metrics_ms(admin: SocketAddr) -> f64 {
    let mut took = Vec::new();
    for _ in 0..11 {
        let start = Instant::now();
        let mut stream = TcpStream::connect(admin).await.unwrap();
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        took.push(start.elapsed().as_secs_f64() * 1e3);
    }
    median(took)
}

fn print(measured: &[Vec<Round>; 3], metrics: f64, rounds: usize, time: Duration) {
    let of = |index: usize, figure: fn(&Round) -> f64| median(measured[index].iter().map(figure).collect());
    let cpu = [0, 1, 2].map(|index| of(index, |round| round.percent_of_core));
    let p99 = [0, 1, 2].map(|index| of(index, |round| round.p99));
    println!(
        "Median of {rounds} rounds of {time:?}, {POLICIES} policies, {TAKES_PER_SECOND} takes a second.\n"
    );
    println!("| | 5 viewers | no viewer | no dashboard | wanted |");
    println!("|---|---:|---:|---:|---|");
    let word = |is_met: bool| if is_met { "met" } else { "MISSED" };
    let more = cpu[0] - cpu[1];
    println!(
        "| CPU, % of a core | {:.2} | {:.2} | {:.2} | viewers at most {PERCENT_OF_CORE} more: {:.2}, {} |",
        cpu[0],
        cpu[1],
        cpu[2],
        more,
        word(more <= PERCENT_OF_CORE)
    );
    let ratio = p99[0] / p99[1];
    println!(
        "| p99 of takes, us | {:.0} | {:.0} | {:.0} | viewers at most {P99_RATIO} times: {ratio:.3}, {} |",
        p99[0],
        p99[1],
        p99[2],
        word(ratio <= P99_RATIO)
    );
    let met = word(metrics <= METRICS_MS);
    println!("| `/metrics`, ms | | {metrics:.1} | | at most {METRICS_MS}: {met} |");
}
