//! The abusers: each has its own address and repeats one kind of abuse until the test is over.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle, sleep};
use std::time::Duration;

use tollway_server::{BODY_BYTES_MAX, ListenerKind};
use tollway_testkit::Random;

use crate::client::Client;
use crate::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GET, HEADERS, PING, POST, RST_STREAM, Raw, SETTINGS,
    WINDOW_UPDATE, frame, stream,
};
use crate::redis_client::request;
use crate::running::Running;

/// Connections of an abuser that holds many.
const HELD: usize = 40;

/// More than the connection limit per address.
const OVER_THE_BOUND: usize = 250;

/// The pause between two bytes of a slow client.
const TRICKLE: Duration = Duration::from_millis(200);

/// The length of a round: the server's deadlines have passed by then.
const TRICKLES_MAX: usize = 75;

/// Requests in one round of a flood.
const FLOOD: usize = 500;

/// One abuser.
pub(crate) struct Abuser<'s> {
    server: &'s Running,
    /// Its own address, so that it has its own connection limit.
    address: Ipv4Addr,
    over: &'s AtomicBool,
    random: Random,
    /// Makes subjects and keys unique.
    number: Cell<u64>,
}

type Abuse = fn(&mut Abuser<'_>) -> io::Result<()>;

/// All kinds of abuse, by name.
const ABUSES: [(&str, Abuse); 9] = [
    ("slow heads", slow_heads),
    ("silent connections", silent_connections),
    ("oversized bodies", oversized_bodies),
    ("HTTP/2 floods", http2_floods),
    ("RESP garbage", resp_garbage),
    ("too many connections", too_many_connections),
    ("new subjects", new_subjects),
    ("new keys and limits", new_keys_and_limits),
    ("aborted requests", aborted_requests),
];

/// Starts all of them; each thread returns its number of rounds.
pub(crate) fn gather<'s, 'e>(
    scope: &'s Scope<'s, 'e>,
    server: &'e Running,
    over: &'e AtomicBool,
) -> Vec<(&'static str, ScopedJoinHandle<'s, u64>)> {
    let one = |(place, (name, abuse)): (usize, &(&'static str, Abuse))| {
        let address = Ipv4Addr::new(127, 0, 1, u8::try_from(place).unwrap());
        let (abuse, random) = (*abuse, Random::new(place as u64));
        let mut abuser = Abuser { server, address, over, random, number: Cell::new(0) };
        let thread = scope.spawn(move || {
            let mut rounds = 0;
            while !abuser.is_over() {
                // The server is expected to close the connection.
                let _ = abuse(&mut abuser);
                rounds += 1;
            }
            rounds
        });
        (*name, thread)
    };
    ABUSES.iter().enumerate().map(one).collect()
}

impl Abuser<'_> {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// A connection from this abuser's address.
    fn connect(&self, kind: ListenerKind) -> io::Result<TcpStream> {
        let stream = self.server.connect(self.address, kind)?;
        let timeout = Some(Duration::from_secs(15));
        stream.set_read_timeout(timeout)?;
        stream.set_write_timeout(timeout)?;
        Ok(stream)
    }

    fn connections(&self, kind: ListenerKind, count: usize) -> Vec<TcpStream> {
        (0..count).filter_map(|_| self.connect(kind).ok()).collect()
    }

    fn next_number(&self) -> u64 {
        self.number.replace(self.number.get() + 1)
    }

    /// Repeats these bytes slowly on all connections until none is left.
    fn trickle(&self, mut streams: Vec<TcpStream>, bytes: &[u8]) {
        for _ in 0..TRICKLES_MAX {
            streams.retain_mut(|stream| stream.write_all(bytes).is_ok());
            if streams.is_empty() || self.is_over() {
                break;
            }
            sleep(TRICKLE);
        }
    }
}

fn slow_heads(abuser: &mut Abuser<'_>) -> io::Result<()> {
    let mut streams = abuser.connections(ListenerKind::Decisions, HELD);
    for stream in &mut streams {
        stream.write_all(b"POST /v1/take HTTP/1.1\r\nhost: x\r\n")?;
    }
    abuser.trickle(streams, b"a: b\r\n");
    Ok(())
}

/// Sends nothing, or only the beginning of a request, to every listener.
fn silent_connections(abuser: &mut Abuser<'_>) -> io::Result<()> {
    let beginnings: [(ListenerKind, &[u8]); 5] = [
        (ListenerKind::Decisions, b""),
        (ListenerKind::Decisions, b"PRI * HTTP/2.0\r\n"),
        (ListenerKind::Grpc, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (ListenerKind::Resp, b""),
        (ListenerKind::Resp, b"*2\r\n$1000\r\nhalf"),
    ];
    let mut streams = Vec::new();
    for (kind, beginning) in beginnings.iter().cycle().take(HELD) {
        let mut stream = abuser.connect(*kind)?;
        stream.write_all(beginning)?;
        streams.push(stream);
    }
    abuser.trickle(streams, b"");
    Ok(())
}

fn oversized_bodies(abuser: &mut Abuser<'_>) -> io::Result<()> {
    let spaces = vec![b' '; BODY_BYTES_MAX];
    let chunk = [format!("{:x}\r\n", spaces.len()).as_bytes(), &spaces, b"\r\n"].concat();
    for (announced, part) in [("content-length: 1000000000", &spaces), ("transfer-encoding: chunked", &chunk)]
    {
        let mut stream = abuser.connect(ListenerKind::Decisions)?;
        stream.write_all(format!("POST /v1/take HTTP/1.1\r\nhost: x\r\n{announced}\r\n\r\n").as_bytes())?;
        while stream.write_all(part).is_ok() && !abuser.is_over() {}
    }
    Ok(())
}

fn http2_floods(abuser: &mut Abuser<'_>) -> io::Result<()> {
    type Round = fn(u32) -> Vec<Vec<u8>>;
    let rounds: [Round; 8] = [
        |n| {
            let opened = frame(HEADERS, END_STREAM | END_HEADERS, stream(n), GET);
            vec![opened, frame(RST_STREAM, 0, stream(n), &8u32.to_be_bytes())]
        },
        |n| {
            let update = frame(WINDOW_UPDATE, 0, stream(n), &0x7fff_ffffu32.to_be_bytes());
            vec![frame(HEADERS, END_HEADERS, stream(n), POST), update.clone(), update]
        },
        |n| match n {
            0 => vec![frame(HEADERS, 0, 1, GET)],
            _ => vec![frame(
                CONTINUATION,
                0,
                1,
                &[&[0x10, 1, b'a', 100][..], &[b'v'; 100]].concat().repeat(100),
            )],
        },
        |n| match n {
            0 => vec![frame(HEADERS, END_HEADERS, 1, POST)],
            _ => vec![frame(DATA, 0, 1, &[]); 100],
        },
        |_| vec![frame(PING, 0, 0, &[0; 8]); 100],
        // Acknowledgements of pings that were not sent.
        |_| vec![frame(PING, 1, 0, &[0; 8]); 100],
        |_| vec![frame(SETTINGS, 0, 0, &[]); 100],
        |n| vec![frame(HEADERS, END_HEADERS, stream(n), POST)],
    ];
    let round = *abuser.random.pick(&rounds);
    let kind = *abuser.random.pick(&[ListenerKind::Decisions, ListenerKind::Grpc]);
    let raw = Raw::over(abuser.connect(kind)?)?;
    let over = abuser.over;
    // When the test is over, an oversized unknown frame makes the server close the connection.
    raw.flood(|number| match over.load(Ordering::Relaxed) {
        true => vec![vec![0xff; 64]],
        false => round(number),
    });
    Ok(())
}

fn resp_garbage(abuser: &mut Abuser<'_>) -> io::Result<()> {
    let pieces =
        ["*", "$", "\r\n", "-", "1", "9999999999", "\"", "PING", "CL.THROTTLE", " ", "\0", "\u{fffd}"];
    for _ in 0..HELD {
        let mut stream = abuser.connect(ListenerKind::Resp)?;
        let length = abuser.random.between(1, 2_000);
        let garbage: String = (0..length).map(|_| *abuser.random.pick(&pieces)).collect();
        stream.write_all(garbage.as_bytes())?;
    }
    // Endless requests whose replies are never read.
    let mut deaf = abuser.connect(ListenerKind::Resp)?;
    let questions = request(&["ECHO", &"x".repeat(1_000)]).repeat(FLOOD);
    while deaf.write_all(&questions).is_ok() && !abuser.is_over() {}
    Ok(())
}

fn too_many_connections(abuser: &mut Abuser<'_>) -> io::Result<()> {
    let kind = *abuser.random.pick(&[ListenerKind::Decisions, ListenerKind::Grpc, ListenerKind::Resp]);
    let held = abuser.connections(kind, OVER_THE_BOUND);
    abuser.trickle(held, b"");
    Ok(())
}

/// Long subjects, each used once.
fn new_subjects(abuser: &mut Abuser<'_>) -> io::Result<()> {
    let mut client = Client::over(abuser.connect(ListenerKind::Decisions)?);
    for _ in 0..FLOOD {
        let take = |_| format!("{{\"policy\": \"api\", \"subject\": \"{:0>500}\"}}", abuser.next_number());
        let takes: Vec<String> = (0..100).map(take).collect();
        assert_eq!(client.take(&format!("[{}]", takes.join(","))).status, 200);
        if abuser.is_over() {
            break;
        }
    }
    Ok(())
}

fn new_keys_and_limits(abuser: &mut Abuser<'_>) -> io::Result<()> {
    let mut stream = abuser.connect(ListenerKind::Resp)?;
    let mut reading = stream.try_clone()?;
    for _ in 0..FLOOD {
        let number = abuser.next_number().to_string();
        let key = format!("{number:0>500}");
        stream.write_all(&request(&["CL.THROTTLE", &key, &number, "1", "60"]))?;
        let mut reply = [0; 4];
        reading.read_exact(&mut reply)?;
        assert_eq!(&reply, b"*5\r\n");
        // The rest is five numbers, one per line.
        let mut lines = 0;
        while lines < 5 {
            let mut byte = [0];
            reading.read_exact(&mut byte)?;
            lines += usize::from(byte[0] == b'\n');
        }
    }
    Ok(())
}

/// Disconnects before the request is complete, or before the response is read.
fn aborted_requests(abuser: &mut Abuser<'_>) -> io::Result<()> {
    let body = r#"{"policy": "api", "subject": "aborted"}"#;
    let whole = format!("POST /v1/take HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    for _ in 0..HELD {
        let cut = abuser.random.index(whole.len() + 1);
        abuser.connect(ListenerKind::Decisions)?.write_all(&whole.as_bytes()[..cut])?;
    }
    Ok(())
}
