//! HTTP/2 control frames: a client that floods the server with them is closed, and a busy one is not.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tollway_server::{ClientTimeouts, ListenerKind};

use crate::http2::{END_HEADERS, END_STREAM, GET, HEADERS, PING, SETTINGS, WINDOW_UPDATE, frame, stream};
use crate::running::{LONG, Running, Setup};

const CONFIG: &str = r#"
    [policies.p]
    limits = ["1000000 / hour"]
    [server]
    grpc = "127.0.0.1:0"
"#;

const ACK: u8 = 1;
const PRIORITY: u8 = 2;
const UNKNOWN: u8 = 0xfa;

const LISTENERS: [ListenerKind; 2] = [ListenerKind::Decisions, ListenerKind::Grpc];

/// No deadline cuts a client off before it is judged by its frames.
fn setup() -> Setup {
    let hour = Duration::from_secs(3_600);
    let mut setup = Setup::of(CONFIG);
    setup.timeouts =
        ClientTimeouts { head: hour, idle: hour, body: hour, write: hour, ..ClientTimeouts::default() };
    setup
}

fn connect(server: &Running, kind: ListenerKind) -> Client<TcpStream> {
    let stream = TcpStream::connect(server.tcp(kind)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    Client::over(stream)
}

/// A client that reads and writes frames itself.
struct Client<S>(S);

impl<S: Read + Write> Client<S> {
    fn over(mut stream: S) -> Self {
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        Self(stream)
    }

    fn send(&mut self, frames: &[u8]) -> io::Result<()> {
        self.0.write_all(frames)?;
        self.0.flush()
    }

    fn read(&mut self) -> io::Result<(u8, u8, Vec<u8>)> {
        let mut header = [0; 9];
        self.0.read_exact(&mut header)?;
        let [high, middle, low, kind, flags, ..] = header;
        let mut payload = vec![0; usize::try_from(u32::from_be_bytes([0, high, middle, low])).unwrap()];
        self.0.read_exact(&mut payload)?;
        Ok((kind, flags, payload))
    }

    /// Waits until the server has read everything sent so far: it answers frames in order.
    fn is_answered(&mut self) -> io::Result<()> {
        self.send(&frame(PING, 0, 0, b"received"))?;
        loop {
            match self.read()? {
                (PING, ACK, payload) if payload == b"received" => return Ok(()),
                (PING, 0, payload) => self.send(&frame(PING, ACK, 0, &payload))?,
                (SETTINGS, 0, _) => self.send(&frame(SETTINGS, ACK, 0, &[]))?,
                _ => {}
            }
        }
    }

    /// Sends a request, then 20,000 of these frames. An error if the server closes the connection.
    fn flood(mut self, frame_of_flood: &[u8]) -> io::Result<()> {
        self.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream(0), GET))?;
        self.is_answered()?;
        for _ in 0..200 {
            self.send(&frame_of_flood.repeat(100))?;
        }
        self.is_answered()
    }
}

/// Frames that the HTTP/2 library reads without a bound and without an answer.
fn floods() -> [(&'static str, Vec<u8>); 4] {
    [
        ("acknowledgements of pings that were not sent", frame(PING, ACK, 0, &[7; 8])),
        ("priorities", frame(PRIORITY, 0, stream(1), &[0, 0, 0, 0, 16])),
        ("window updates", frame(WINDOW_UPDATE, 0, 0, &1u32.to_be_bytes())),
        ("unknown frames", frame(UNKNOWN, 0, 0, &[])),
    ]
}

/// T21: a flood is closed although its client has sent a request, and is counted.
#[test]
fn control_frame_flood_is_closed_on_both_listeners() {
    let server = setup().start();
    for kind in LISTENERS {
        for (name, frame) in floods() {
            let survived = connect(&server, kind).flood(&frame);
            assert!(survived.is_err(), "the server took 20,000 {name} at {kind:?}");
        }
        assert!(connect(&server, kind).is_answered().is_ok(), "a new connection is served");
    }
    let metrics = server.admin().get("/metrics", "").body;
    for door in ["decisions", "grpc"] {
        let counted = format!(r#"tollway_connections_cut_off_total{{door="{door}"}} {}"#, floods().len());
        assert!(metrics.contains(&counted), "{counted} is not in {metrics}");
    }
}

/// T21: the same over TLS.
#[cfg(feature = "tls")]
#[test]
fn control_frame_flood_over_tls_is_closed() {
    use crate::certificate::{certificate, over_tls};

    let folder = tempfile::tempdir().unwrap();
    let files = certificate(folder.path());
    let mut setup = setup();
    setup.config.tls = Some(files.clone());
    let server = setup.start();
    for kind in LISTENERS {
        let client = || Client::over(over_tls(server.tcp(kind), &files));
        assert!(client().flood(&frame(PING, ACK, 0, &[7; 8])).is_err(), "{kind:?}");
        assert!(client().is_answered().is_ok(), "a new connection is served");
    }
}

/// T21: 4,000 requests with five window updates and a ping each, and pings between them, as busy proxies send them.
#[test]
fn busy_client_with_honest_control_frames_is_served() {
    let server = setup().start();
    for kind in LISTENERS {
        let mut client = connect(&server, kind);
        for round in 0..80_u32 {
            let request = |number: u32| {
                let updates = frame(WINDOW_UPDATE, 0, 0, &200u32.to_be_bytes()).repeat(5);
                let head = frame(HEADERS, END_HEADERS | END_STREAM, stream(round * 50 + number), GET);
                [head, updates, frame(PING, 0, 0, &[1; 8])].concat()
            };
            let requests: Vec<u8> = (0..50).flat_map(request).collect();
            client.send(&requests).and_then(|()| client.is_answered()).unwrap();
        }
    }
}
