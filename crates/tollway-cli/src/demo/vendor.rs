//! Somebody else's API. It knows nothing of Tollway, counts calls as they arrive, and refuses those above its limit.

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

/// Calls that are served at the same time: one of each worker, and some that a killed one left behind.
const CONNECTIONS_MAX: usize = 2 * NUMBER_MAX;
/// How long a caller may take to say what it wants, or to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait where the machine has no room for another connection.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(10);

/// The vendor, at work until it is dropped.
pub(super) struct Vendor {
    address: SocketAddr,
    desk: Arc<Desk>,
    accepting: Option<JoinHandle<()>>,
}

/// What all of its threads share.
struct Desk {
    quota: Quota,
    latency: Duration,
    tally: Mutex<Tally>,
    connections: AtomicUsize,
    closed: AtomicBool,
}

impl Vendor {
    /// Opens on a free port of this machine, which nobody else can reach.
    pub(super) fn open(quota: Quota, latency: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let desk = Arc::new(Desk {
            quota,
            latency,
            tally: Mutex::default(),
            connections: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        });
        let accepting = thread::Builder::new().name("vendor".to_owned()).spawn({
            let desk = Arc::clone(&desk);
            move || accept(&listener, &desk)
        })?;
        Ok(Self { address, desk, accepting: Some(accepting) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it counted so far.
    pub(super) fn tally(&self) -> Tally {
        self.desk.tally().clone()
    }
}

impl Drop for Vendor {
    fn drop(&mut self) {
        self.desk.closed.store(true, Ordering::Release);
        // The thread waits for a caller; this is one.
        if TcpStream::connect(self.address).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, desk: &Arc<Desk>) {
    while !desk.closed.load(Ordering::Acquire) {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(PAUSE_AFTER_FAILURE);
            continue;
        };
        if desk.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            desk.connections.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let serving = thread::Builder::new().spawn({
            let desk = Arc::clone(desk);
            move || {
                // Who hangs up, or is killed, has done nobody else any harm.
                let _ = desk.serve(&stream);
                desk.connections.fetch_sub(1, Ordering::AcqRel);
            }
        });
        if serving.is_err() {
            desk.connections.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Desk {
    fn serve(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = Head::read(BufReader::new(stream))?;
        let answer = match head.number(WORKER) {
            Some(worker @ 1..=NUMBER_MAX) if head.word(0) == "GET" => self.answer(worker),
            _ => response("400 Bad Request", "", r#"{"error":"say which worker you are"}"#),
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
