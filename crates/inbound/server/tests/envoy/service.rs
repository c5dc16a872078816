//! The service behind Envoy: responds to every request with its `x-tollway-would-deny` header.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub(crate) struct Service {
    address: SocketAddr,
    served: Arc<AtomicUsize>,
}

impl Service {
    /// Serves until the test's process ends.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let served = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&served);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let count = Arc::clone(&count);
                thread::spawn(move || serve(&stream.unwrap(), &count));
            }
        });
        Self { address, served }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests have arrived.
    pub(crate) fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }
}

/// Serves one connection until Envoy closes it.
fn serve(stream: &TcpStream, count: &AtomicUsize) {
    let mut told = String::new();
    // As bytes: headers of clients need not be UTF-8.
    for line in BufReader::new(stream).split(b'\n') {
        let Ok(line) = line else { return };
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        if let Some(value) = line.strip_prefix("x-tollway-would-deny: ") {
            value.clone_into(&mut told);
        }
        if line.is_empty() {
            count.fetch_add(1, Ordering::Relaxed);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{told}", told.len());
            let mut writer = stream;
            if writer.write_all(answer.as_bytes()).is_err() {
                return;
            }
            told.clear();
        }
    }
}
