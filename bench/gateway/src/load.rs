//! The load: POSTs at a fixed rate over connections that stay open. A call that is sent late because the one before it took long
//! counts from its planned time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// As long as a short question.
const BODY: &str = "{\"model\":\"m\",\"max_tokens\":64,\"messages\":[{\"role\":\"user\",\"content\":\"How long is the longest river of the world, where does it begin, and which countries does it pass on its way?\"}]}";

/// Microseconds and megabytes.
pub struct Figures {
    /// The median of the calls.
    pub p50: f64,
    /// What 99 of 100 calls did not exceed.
    pub p99: f64,
    /// CPU time.
    pub cpu: f64,
    /// Resident memory.
    pub memory: f64,
    /// How many calls there were.
    pub calls: f64,
}

/// A question to a model.
pub fn question(to: SocketAddr, path: &str) -> Vec<u8> {
    post(to, path, BODY)
}

/// A POST of this JSON.
pub fn post(to: SocketAddr, path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\nauthorization: Bearer bench\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Calls at `rate` a second with these messages in turn. CPU time and memory are the caller's to add.
pub async fn calls(
    to: SocketAddr,
    messages: &Arc<[Vec<u8>]>,
    rate: u32,
    time: Duration,
    connections: usize,
) -> Figures {
    let every = Duration::from_secs(1) * u32::try_from(connections).unwrap() / rate;
    #[allow(clippy::disallowed_methods, reason = "it measures time")]
    let start = Instant::now() + Duration::from_millis(50);
    let mut senders = JoinSet::new();
    for number in 0..connections {
        let (messages, offset) = (
            Arc::clone(messages),
            every * u32::try_from(number).unwrap() / u32::try_from(connections).unwrap(),
        );
        senders.spawn(async move {
            let mut stream = TcpStream::connect(to).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (mut took, mut planned) = (Vec::new(), start + offset);
            let mut turns = (number..).step_by(connections);
            while planned < start + time {
                let from = wait_until(planned).await;
                let turn = turns.next().unwrap_or(0) % messages.len();
                stream.write_all(&messages[turn]).await.unwrap();
                read_answer(&mut stream).await;
                took.push(from.elapsed().as_secs_f64() * 1e6);
                planned += every;
            }
            took
        });
    }
    let mut took: Vec<f64> = senders.join_all().await.into_iter().flatten().collect();
    took.sort_by(f64::total_cmp);
    let at = |share: usize| took[(took.len() - 1) * share / 100];
    Figures { p50: at(50), p99: at(99), cpu: 0.0, memory: 0.0, calls: took.len() as f64 }
}

/// When the call begins: now, if it was waited for, because timers wake a millisecond late; otherwise when it was planned.
#[allow(clippy::disallowed_methods, reason = "it measures time")]
async fn wait_until(planned: Instant) -> Instant {
    if Instant::now() > planned {
        return planned;
    }
    tokio::time::sleep_until(planned).await;
    Instant::now()
}

async fn read_answer(stream: &mut TcpStream) {
    let mut bytes = Vec::with_capacity(1_024);
    loop {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the proxy has closed its connection");
        let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{head}");
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
        match length {
            Some(length) if bytes.len() >= end + 4 + length => return,
            None if bytes.ends_with(b"0\r\n\r\n") => return,
            _ => {}
        }
    }
}

/// The one in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
