//! A receiver of webhooks on a real socket, which answers as it is told and keeps what it gets.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Longer than any test waits for a request that comes.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A request.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    /// By name in lower case.
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Received {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// The receiver.
pub struct Receiver {
    pub port: u16,
    received: Arc<(Mutex<Vec<Received>>, Condvar)>,
}

impl Receiver {
    /// Answers the first requests with these heads, such as `503 Busy\r\nRetry-After: 1`, and all others with 204.
    pub fn start(answers: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::<(Mutex<Vec<Received>>, Condvar)>::default();
        let (kept, answers) = (Arc::clone(&received), answers.iter().map(|a| (*a).to_owned()).collect());
        std::thread::spawn(move || serve(&listener, answers, &kept));
        Self { port, received }
    }

    /// All requests so far, once there are as many.
    pub fn wait_for(&self, count: usize) -> Vec<Received> {
        let (received, changed) = &*self.received;
        let few = |received: &mut Vec<Received>| received.len() < count;
        let (received, timeout) = changed.wait_timeout_while(received.lock().unwrap(), TIMEOUT, few).unwrap();
        assert!(!timeout.timed_out(), "{} of {count} requests came", received.len());
        received.clone()
    }
}

fn serve(listener: &TcpListener, answers: Vec<String>, kept: &(Mutex<Vec<Received>>, Condvar)) {
    let mut answers = answers.into_iter();
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        let Some(request) = read(&stream) else { continue };
        let head = answers.next().unwrap_or_else(|| "204 No Content".to_owned());
        kept.0.lock().unwrap().push(request);
        let answer = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        (&stream).write_all(answer.as_bytes()).unwrap();
        kept.1.notify_all();
    }
}

fn read(stream: &TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    Some(Received { path, headers, body: String::from_utf8(body).unwrap() })
}
