//! The vendor: an HTTP server with a log of its own.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::audit::is_slow;
use crate::now;

/// How long a call takes, and one of a slow job: longer than a claim lasts, and shorter than two.
const LATENCY: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_millis(1_500);

/// A running vendor. Its log has a line for each call, as it arrives: time, stage, key, worker.
pub(crate) struct Vendor {
    pub(crate) address: String,
    log: Arc<Mutex<Log>>,
}

struct Log {
    file: File,
    calls: u64,
    calls_of: HashMap<(String, String), u64>,
    /// The workers of the last calls, the newest last.
    workers: Vec<String>,
}

/// How many workers are remembered.
const WORKERS_MAX: usize = 8;

impl Vendor {
    pub(crate) fn start(log: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let file = OpenOptions::new().append(true).create(true).open(log).unwrap();
        let log = Log { file, calls: 0, calls_of: HashMap::new(), workers: Vec::new() };
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
    let latency =
        log.lock().unwrap().call(head.remove("stage")?, head.remove("key")?, head.remove("worker")?);
    std::thread::sleep(latency);
    (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok()
}

impl Log {
    /// Logs a call. How long it takes.
    fn call(&mut self, stage: String, key: String, worker: String) -> Duration {
        self.file.write_all(format!("{} {stage} {key} {worker}\n", now().as_micros()).as_bytes()).unwrap();
        self.calls += 1;
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
