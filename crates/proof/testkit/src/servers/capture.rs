//! An HTTP server that keeps every request, and answers as its test says: for services that no emulator has.

use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::http::Message;

/// Longer than any test waits for a request that comes.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A request that was received.
#[derive(Clone, Debug)]
pub struct CapturedRequest {
    /// The first line without the version: `POST /path`.
    pub target: String,
    head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl CapturedRequest {
    /// A header, by its name in any case.
    pub fn header(&self, name: &str) -> Option<String> {
        let message = Message { head: self.head.clone(), body: Vec::new() };
        message.header(name).map(str::to_owned)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What to answer.
#[derive(Clone, Debug)]
pub struct CapturedAnswer {
    /// Status, and more lines of the head: `200 OK\r\nContent-Type: application/json`.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl CapturedAnswer {
    /// An answer with this head and body.
    pub fn new(head: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { head: head.to_owned(), body: body.into() }
    }
}

type Kept = Arc<(Mutex<Vec<CapturedRequest>>, Condvar)>;

/// The server. Its thread ends with the test's process.
pub struct CapturingServer {
    addr: SocketAddr,
    kept: Kept,
}

impl CapturingServer {
    /// Starts one.
    pub fn start(answer: impl Fn(&CapturedRequest) -> CapturedAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let addr = listener.local_addr().expect("an address");
        let (kept, answer) = (Kept::default(), Arc::new(answer));
        let shared = Arc::clone(&kept);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, answer) = (Arc::clone(&shared), Arc::clone(&answer));
                thread::spawn(move || serve(&stream, &kept, &*answer));
            }
        });
        Self { addr, kept }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The same as a URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Everything so far.
    pub fn requests(&self) -> Vec<CapturedRequest> {
        lock(&self.kept.0).clone()
    }

    /// Everything so far, once this holds.
    ///
    /// # Panics
    ///
    /// If it does not hold after a minute.
    pub fn wait_for(&self, enough: impl Fn(&[CapturedRequest]) -> bool) -> Vec<CapturedRequest> {
        let kept = lock(&self.kept.0);
        let waited = self.kept.1.wait_timeout_while(kept, START_TIMEOUT, |kept| !enough(kept));
        let (kept, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "{} requests came, which is not enough", kept.len());
        kept.clone()
    }
}

fn serve(stream: &TcpStream, kept: &Kept, answer: &dyn Fn(&CapturedRequest) -> CapturedAnswer) {
    let mut reader = BufReader::new(stream);
    while let Ok(Message { head, body }) = Message::read(&mut reader) {
        let line = head.lines().next().unwrap_or_default();
        let target = line.rsplit_once(' ').map_or(line, |(target, _)| target).to_owned();
        let request = CapturedRequest { target, head, body };
        let CapturedAnswer { head, body } = answer(&request);
        lock(&kept.0).push(request);
        kept.1.notify_all();
        let head = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut stream = stream;
        if stream.write_all(&[head.as_bytes(), &body].concat()).is_err() {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
