//! Ports for servers.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ephemeral ports of outgoing connections, so that a restarted server finds its port free.
const FIRST: u32 = 10_000;
const COUNT: u32 = 22_000;

/// How many ports this process has used.
static ASKED: AtomicU32 = AtomicU32::new(0);

/// A free loopback port that this process has not used before.
pub(crate) fn free_port() -> u16 {
    // Processes of one test run have neighbouring ids: each starts elsewhere.
    let begin = process::id().wrapping_mul(7_919);
    for _ in 0..COUNT {
        let step = ASKED.fetch_add(1, Ordering::Relaxed);
        let port = (FIRST + begin.wrapping_add(step) % COUNT) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port from {FIRST} to {} is free on loopback", FIRST + COUNT - 1);
}
