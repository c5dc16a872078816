//! A small HTTP/1 client, also of streams of events.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use tollway_dashboard::snapshot::{Changes, Snapshot};

/// Long enough for anything that should happen at all.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// One response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Whether the head has this line, in lower case.
    pub(crate) fn has(&self, line: &str) -> bool {
        self.head.to_lowercase().lines().any(|known| known == line)
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_write_timeout(Some(LONG)).unwrap();
    stream
}

/// Sends one request. Every header ends with CRLF; without `host` among them, the name is that of this machine.
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let mut stream = connect(address);
    let host = if headers.contains("host: ") { "" } else { "host: localhost\r\n" };
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\n{host}connection: close\r\ncontent-length: {length}\r\n");
    stream.write_all(format!("{head}{headers}\r\n{body}").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer {
        status: status.unwrap_or_else(|| panic!("no answer: {text:?}")),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

/// The stream of `/v1/live`.
pub(crate) struct Live {
    lines: BufReader<TcpStream>,
    /// What the events make together.
    pub(crate) state: Snapshot,
}

/// One event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
}

impl Event {
    /// The bytes that were sent.
    pub(crate) fn bytes(&self) -> usize {
        "event: \ndata: \n\n".len() + self.name.len() + self.data.len()
    }
}

impl Live {
    /// Opens it, and reads the first event.
    pub(crate) fn open(address: SocketAddr, headers: &str) -> Self {
        let mut stream = connect(address);
        stream
            .write_all(format!("GET /v1/live HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n").as_bytes())
            .unwrap();
        let mut live = Self { lines: BufReader::new(stream), state: Snapshot::default() };
        let head = live.line().unwrap();
        assert!(head.contains(" 200 "), "{head}");
        let first = live.event().unwrap();
        assert_eq!(first.name, "snapshot");
        live.state = serde_json::from_str(&first.data).unwrap();
        live
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The next event; `None` if the server ended the stream.
    pub(crate) fn event(&mut self) -> Option<Event> {
        let mut name = String::new();
        loop {
            let line = self.line()?;
            if let Some(given) = line.strip_prefix("event: ") {
                name = given.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some(Event { name, data: data.to_owned() });
            }
        }
    }

    /// Takes in the next event, and returns it.
    pub(crate) fn next(&mut self) -> Event {
        let event = self.event().expect("the stream goes on");
        match event.name.as_str() {
            "changes" => self.state.apply(serde_json::from_str::<Changes>(&event.data).unwrap()),
            // A viewer that was slow, or changes that would be larger than the whole.
            name => {
                assert_eq!(name, "snapshot");
                self.state = serde_json::from_str(&event.data).unwrap();
            }
        }
        event
    }

    /// Reads until the state is so.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Snapshot) -> bool) {
        let begun = std::time::Instant::now();
        while !is_so(&self.state) {
            assert!(begun.elapsed() < LONG, "never {what}: {:?}", self.state);
            self.next();
        }
    }
}
