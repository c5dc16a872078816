//! The vendor: an HTTP server with a log of its own.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollway_core::Timestamp;

use crate::audit::is_slow;
use crate::checker::Limit;
use crate::now;
use crate::stepped_clock::{SteppedClock, stepped};

/// How long a call takes, and one of a slow job: longer than a claim lasts, and shorter than two.
const LATENCY: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_millis(1_500);

/// A running vendor. Its log has a line for each call, as it arrives: time, stage, key, worker, and when it was sent, if the
/// call says that.
pub(crate) struct Vendor {
    pub(crate) address: String,
    log: Arc<Mutex<Log>>,
}

struct Log {
    file: File,
    calls: u64,
    /// When the last call arrived.
    last: Timestamp,
    calls_of: HashMap<(String, String), u64>,
    /// The workers of the last calls, the newest last.
    workers: Vec<String>,
    quota: Option<Quota>,
}

struct VendorCall {
    stage: String,
    key: String,
    worker: String,
    /// In microseconds.
    sent: Option<u64>,
}

/// What a vendor grants that counts for itself.
struct Quota {
    limit: Limit,
    clock: Option<SteppedClock>,
    /// The window of the last call, and how many calls it had.
    window: (u64, u64),
    /// Calls above the limit.
    refused: u64,
    /// Calls that were sent in the window before the one in which they arrived: the network or the machine was too slow.
    slipped: u64,
}

impl Quota {
    /// Counts a call. Another window begins at zero, also an earlier one.
    fn count(&mut self, at: Timestamp, sent: Timestamp) {
        let offset = self.clock.as_ref().map_or(0, SteppedClock::offset);
        let [window, of_sent] = [at, sent].map(|at| stepped(at, offset).as_micros() / self.limit.window);
        if self.window.0 != window {
            self.window = (window, 0);
        }
        if of_sent != window {
            self.slipped += 1;
            return;
        }
        self.window.1 += 1;
        self.refused += u64::from(self.window.1 > self.limit.calls);
    }
}

/// How many workers are remembered.
const WORKERS_MAX: usize = 8;

impl Vendor {
    pub(crate) fn start(log: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let file = OpenOptions::new().append(true).create(true).open(log).unwrap();
        let log = Log {
            file,
            calls: 0,
            last: Timestamp::EPOCH,
            calls_of: HashMap::new(),
            workers: Vec::new(),
            quota: None,
        };
        let log = Arc::new(Mutex::new(log));
        let shared = log.clone();
        // Both end with the test.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = shared.clone();
                std::thread::spawn(move || serve(stream, &log));
            }
        });
        Self { address, log }
    }

    pub(crate) fn calls(&self) -> u64 {
        self.log.lock().unwrap().calls
    }

    /// Counts calls by this limit from now on, on a clock of its own or the machine's.
    pub(crate) fn has_quota(&self, limit: Limit, clock: Option<SteppedClock>) {
        self.log.lock().unwrap().quota = Some(Quota { limit, clock, window: (0, 0), refused: 0, slipped: 0 });
    }

    /// How many calls were above its quota, and how many arrived in the window after the one in which they were sent.
    pub(crate) fn refused_and_slipped(&self) -> (u64, u64) {
        self.log.lock().unwrap().quota.as_ref().map_or((0, 0), |quota| (quota.refused, quota.slipped))
    }

    /// How many calls the running window had, and when the last call arrived.
    pub(crate) fn window(&self) -> (u64, Timestamp) {
        let log = self.log.lock().unwrap();
        (log.quota.as_ref().map_or(0, |quota| quota.window.1), log.last)
    }

    /// The processes of the last calls, the newest first.
    pub(crate) fn last_workers(&self) -> Vec<String> {
        self.log.lock().unwrap().workers.iter().rev().cloned().collect()
    }
}

/// One request a connection. A caller that was killed meanwhile gets no response.
fn serve(stream: TcpStream, log: &Mutex<Log>) -> Option<()> {
    let mut head = HashMap::new();
    for line in BufReader::new(&stream).lines() {
        let line = line.ok()?;
        match line.split_once(": ") {
            Some((name, value)) => drop(head.insert(name.to_owned(), value.to_owned())),
            None if line.is_empty() => break,
            None => {}
        }
    }
    let call = VendorCall {
        stage: head.remove("stage")?,
        key: head.remove("key")?,
        worker: head.remove("worker")?,
        sent: head.remove("sent").and_then(|sent| sent.parse().ok()),
    };
    let latency = log.lock().unwrap().call(call);
    std::thread::sleep(latency);
    (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok()
}

impl Log {
    /// Logs a call. How long it takes.
    fn call(&mut self, call: VendorCall) -> Duration {
        let at = now();
        let VendorCall { stage, key, worker, sent } = call;
        let told = sent.map_or(String::new(), |sent| format!(" {sent}"));
        self.file.write_all(format!("{} {stage} {key} {worker}{told}\n", at.as_micros()).as_bytes()).unwrap();
        self.calls += 1;
        self.last = at;
        if let Some(quota) = &mut self.quota {
            quota.count(at, sent.map_or(at, Timestamp::from_micros));
        }
        let slow = is_slow(&key);
        let calls = self.calls_of.entry((stage, key)).or_default();
        *calls += 1;
        self.workers.retain(|known| *known != worker);
        self.workers.push(worker);
        if self.workers.len() > WORKERS_MAX {
            self.workers.remove(0);
        }
        if slow && *calls <= 2 { SLOW } else { LATENCY }
    }
}
