//! A vendor that records the bytes of every request, and answers by the last segment of the path.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

use crate::running::LONG;

/// A vendor, and what it got.
#[derive(Clone)]
pub(crate) struct RecordingVendor {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    requests: Mutex<Vec<Vec<u8>>>,
    arrived: Notify,
    closed: Notify,
    /// Pieces of the stream `/events`.
    events: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
    refusals: Mutex<Vec<String>>,
}

impl RecordingVendor {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let vendor = Self { address: listener.local_addr().unwrap(), state: Arc::default() };
        let state = Arc::clone(&vendor.state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&state)));
            }
        });
        vendor
    }

    /// The requests so far, as text.
    pub(crate) fn requests(&self) -> Vec<String> {
        let requests = self.state.requests.lock().unwrap();
        requests.iter().map(|request| String::from_utf8_lossy(request).into_owned()).collect()
    }

    /// Waits for this many requests.
    pub(crate) async fn wait_for(&self, count: usize) {
        let arrived = async {
            while self.state.requests.lock().unwrap().len() < count {
                let _ = tokio::time::timeout(Duration::from_millis(50), self.state.arrived.notified()).await;
            }
        };
        tokio::time::timeout(LONG, arrived).await.unwrap();
    }

    /// Waits until a gateway has closed a connection in the middle of an answer.
    pub(crate) async fn wait_for_close(&self) {
        tokio::time::timeout(LONG, self.state.closed.notified()).await.unwrap();
    }

    /// The pieces that `/events` sends, one by one.
    pub(crate) fn events(&self) -> mpsc::UnboundedSender<String> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.state.events.lock().unwrap() = Some(receiver);
        sender
    }

    /// The next calls of any path are answered with these responses.
    pub(crate) fn answer_next(&self, responses: &[&str]) {
        self.state.refusals.lock().unwrap().extend(responses.iter().rev().map(|text| (*text).to_owned()));
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    while let Some(request) = read_request(&mut stream).await {
        let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        state.requests.lock().unwrap().push(request);
        state.arrived.notify_waiters();
        let next = state.refusals.lock().unwrap().pop();
        let last =
            path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned();
        match (next, last.as_str()) {
            (Some(response), _) => drop(stream.write_all(response.as_bytes()).await),
            (None, "hang") => return wait_for_end(stream, &state).await,
            (None, "events") => return send_events(stream, &state).await,
            (None, name) => drop(stream.write_all(canned(name).as_bytes()).await),
        }
    }
}

fn canned(name: &str) -> String {
    let (status, headers, body) = match name {
        "redirect" => ("302 Found", "location: http://elsewhere.example/x?y=1\r\n", ""),
        "zip" => ("200 OK", "content-encoding: gzip\r\netag: \"1\"\r\n", "\u{1f}not really gzip"),
        "own" => (
            "200 OK",
            "tollway-refused-by: forged\r\nkeep-alive: timeout=1\r\nconnection: x-hop\r\nx-hop: 1\r\nx-kept: 1\r\n",
            "own",
        ),
        "usage" => (
            "200 OK",
            "content-type: application/json\r\n",
            "{\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":7}}",
        ),
        "teapot" => ("418 I'm a teapot", "", "short and stout"),
        _ => ("200 OK", "content-type: text/plain\r\n", "hello"),
    };
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

async fn send_events(mut stream: TcpStream, state: &State) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut events = state.events.lock().unwrap().take().unwrap();
    let mut byte = [0];
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => {
                    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
                    if stream.write_all(chunk.as_bytes()).await.is_err() {
                        return state.closed.notify_one();
                    }
                }
                None => return drop(stream.write_all(b"0\r\n\r\n").await),
            },
            read = stream.read(&mut byte) => {
                assert!(matches!(read, Ok(0) | Err(_)), "nothing follows a request");
                return state.closed.notify_one();
            }
        }
    }
}

async fn wait_for_end(mut stream: TcpStream, state: &State) {
    let mut byte = [0];
    let _ = stream.read(&mut byte).await;
    state.closed.notify_one();
}

async fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break end + 4;
        }
        read_more(stream, &mut bytes).await?;
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    match length {
        Some(length) => {
            while bytes.len() < head + length {
                read_more(stream, &mut bytes).await?;
            }
        }
        None if text.contains("transfer-encoding: chunked") => {
            while !bytes.ends_with(b"0\r\n\r\n") {
                read_more(stream, &mut bytes).await?;
            }
        }
        None => {}
    }
    Some(bytes)
}

async fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    (stream.read_buf(bytes).await.ok()? > 0).then_some(())
}
