//! The vendor's API: independent of Tollway, counts calls on arrival and refuses those above its limit.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tollway::{Clock, Timestamp};
use tollway_memory::WallClock;

use super::WORKERS_MAX;
use super::documents::{number, stage_index};
use super::http::{Head, WORKER};
use super::quota::Quota;
use super::tally::{ServedCalls, Tally};

/// Concurrent connections: one per worker, and leftovers of killed ones.
const CONNECTIONS_MAX: usize = 4 * WORKERS_MAX as usize;
/// Timeout for reading a request and for writing a response.
const TIMEOUT: Duration = Duration::from_secs(5);
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
    latency: Duration,
    books: Mutex<Books>,
    connections: AtomicUsize,
    closed: AtomicBool,
}

/// What the vendor allows, and what it has counted.
struct Books {
    quota: Quota,
    tally: Tally,
    served: ServedCalls,
    /// Calls that are not answered, the newest last.
    in_flight: BTreeMap<u64, VendorCall>,
    calls: u64,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub(super) struct VendorCall {
    /// The process id of the caller.
    pub(super) worker: u32,
    stage: usize,
    /// The number of the document.
    pub(super) document: u64,
}

impl Vendor {
    /// Listens on a free loopback port.
    pub(super) fn open(quota: Quota, latency: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (tally, served) = (Tally::default(), ServedCalls::default());
        let books = Books { quota, tally, served, in_flight: BTreeMap::new(), calls: 0 };
        let state = Arc::new(VendorState {
            latency,
            books: Mutex::new(books),
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

    /// Changes the limit from this minute on.
    pub(super) fn change_limit(&self, from: u64, limit: u64) {
        self.state.books().quota.change(from, limit);
    }

    /// Its counts so far.
    pub(super) fn tally(&self) -> Tally {
        self.state.books().tally.clone()
    }

    /// The calls it has served.
    pub(super) fn served(&self) -> ServedCalls {
        self.state.books().served.clone()
    }

    /// The newest call that is not answered yet.
    pub(super) fn newest_in_flight(&self) -> Option<VendorCall> {
        self.state.books().in_flight.last_key_value().map(|(_, call)| *call)
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
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let head = Head::read(BufReader::new(stream))?;
        let answer = match call_of(&head) {
            Some(call) => self.answer(call),
            None => response("400 Bad Request", "", r#"{"error":"POST /STAGE/DOCUMENT with x-worker"}"#),
        };
        stream.write_all(answer.as_bytes())
    }

    /// Decides on arrival. A refusal takes as long as a result.
    fn answer(&self, call: VendorCall) -> String {
        let now = WallClock.now();
        let (id, admitted, left) = self.books().arrive(call, now);
        thread::sleep(self.latency);
        self.books().in_flight.remove(&id);
        if admitted {
            return response("200 OK", "", r#"{"done":true}"#);
        }
        let seconds = left.as_micros().div_ceil(1_000_000);
        let retry_after = format!("Retry-After: {seconds}\r\n");
        response("429 Too Many Requests", &retry_after, r#"{"error":"too many requests"}"#)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    /// Counts a call. Returns its number, whether it is within the limit, and what is left of the minute.
    fn arrive(&mut self, call: VendorCall, now: Timestamp) -> (u64, bool, tollway::Span) {
        let minute = self.quota.minute_at(now);
        let admitted = self.tally.admit(minute, call.worker, self.quota.limit_in(minute));
        if admitted {
            self.served.add(call.stage, call.document);
        }
        self.calls += 1;
        self.in_flight.insert(self.calls, call);
        (self.calls, admitted, self.quota.left_of_minute(now))
    }
}

/// `POST /autotag/doc-0042`.
fn call_of(head: &Head) -> Option<VendorCall> {
    let (stage, document) = head.word(1).strip_prefix('/')?.split_once('/')?;
    let call =
        VendorCall { worker: head.number(WORKER)?, stage: stage_index(stage)?, document: number(document)? };
    (head.word(0) == "POST").then_some(call)
}

fn response(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}Connection: close\r\n\r\n{body}",
        body.len()
    )
}
