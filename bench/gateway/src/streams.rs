//! The time to the first byte of a stream's first event, over new connections.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use tollway_gateway_bench::load::median;
use tollway_gateway_bench::proxies::Proxy;

/// Streams of each contender.
const STREAMS: usize = 100;

/// By how many microseconds the first byte comes later through each of two proxies: the median of streams that follow a direct
/// one.
pub(crate) async fn first_bytes(vendor: SocketAddr, proxies: [&Proxy; 2], is_quick: bool) -> [f64; 2] {
    let mut later = [Vec::new(), Vec::new()];
    for _ in 0..if is_quick { 2 } else { STREAMS } {
        let direct = first_byte(vendor, "/v1/events").await;
        for (proxy, later) in proxies.into_iter().zip(&mut later) {
            let path = proxy.path.replace("chat/completions", "events");
            later.push(first_byte(proxy.address, &path).await - direct);
        }
    }
    later.map(median)
}

async fn first_byte(to: SocketAddr, path: &str) -> f64 {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let message = format!("GET {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n\r\n");
    #[allow(clippy::disallowed_methods, reason = "it measures time")]
    let start = Instant::now();
    stream.write_all(message.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    while !bytes.windows(6).any(|part| part == b"data: ") {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the stream has events");
    }
    start.elapsed().as_secs_f64() * 1e6
}
