//! The vendor's API: independent of Tollway, counts calls on arrival and refuses those above its limit.

use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tollway::Clock;
use tollway_memory::WallClock;

use super::http::{Head, WORKER};
use super::quota::Quota;
use super::tally::{NUMBER_MAX, Tally};

/// Concurrent connections: one per worker, and leftovers of a killed one.
const CONNECTIONS_MAX: usize = 2 * NUMBER_MAX;
/// Timeout for reading a request and for writing a response.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a failed accept.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(10);

/// The vendor, running until dropped.
pub(super) struct Vendor {
    address: SocketAddr,
    state: Arc<VendorState>,
    accepting: Option<JoinHandle<()>>,
}

/// State shared by its threads.
struct VendorState {
    quota: Quota,
    latency: Duration,
    tally: Mutex<Tally>,
    connections: AtomicUsize,
    closed: AtomicBool,
}

impl Vendor {
    /// Listens on a free loopback port.
    pub(super) fn open(quota: Quota, latency: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(VendorState {
            quota,
            latency,
            tally: Mutex::default(),
            connections: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        });
        let accepting = thread::Builder::new().name("vendor".to_owned()).spawn({
            let state = Arc::clone(&state);
            move || accept(&listener, &state)
        })?;
        Ok(Self { address, state, accepting: Some(accepting) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its counts so far.
    pub(super) fn tally(&self) -> Tally {
        self.state.tally().clone()
    }
}

impl Drop for Vendor {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::Release);
        // Wakes the thread from `accept`.
        if TcpStream::connect(self.address).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, state: &Arc<VendorState>) {
    while !state.closed.load(Ordering::Acquire) {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(PAUSE_AFTER_FAILURE);
            continue;
        };
        if state.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            state.connections.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let serving = thread::Builder::new().spawn({
            let state = Arc::clone(state);
            move || {
                // A failed connection affects no other call.
                let _ = state.serve(&stream);
                state.connections.fetch_sub(1, Ordering::AcqRel);
            }
        });
        if serving.is_err() {
            state.connections.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl VendorState {
    fn serve(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = Head::read(BufReader::new(stream))?;
        let answer = match head.number(WORKER) {
            Some(worker @ 1..=NUMBER_MAX) if head.word(0) == "GET" => self.answer(worker),
            _ => response("400 Bad Request", "", r#"{"error":"missing x-worker header"}"#),
        };
        stream.write_all(answer.as_bytes())
    }

    fn answer(&self, worker: usize) -> String {
        let now = WallClock.now();
        if self.tally().admit(self.quota.minute_at(now), worker, self.quota.limit) {
            thread::sleep(self.latency);
            return response("200 OK", "", r#"{"done":true}"#);
        }
        let seconds = self.quota.left_of_minute(now).as_micros().div_ceil(1_000_000);
        let retry_after = format!("Retry-After: {seconds}\r\n");
        response("429 Too Many Requests", &retry_after, r#"{"error":"too many requests"}"#)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn response(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}Connection: close\r\n\r\n{body}",
        body.len()
    )
}
