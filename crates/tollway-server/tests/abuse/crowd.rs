//! The crowd: each abuser has an address of its own and does its worst, round after round, until it is over.

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

/// More than one address may have.
const OVER_THE_BOUND: usize = 250;

/// Between two bytes of whoever trickles.
const TRICKLE: Duration = Duration::from_millis(200);

/// A round lasts no longer: the server has cut off whoever it will cut off.
const TRICKLES_MAX: usize = 75;

/// Questions of a round of a flood.
const FLOOD: usize = 500;

/// One of the crowd.
pub(crate) struct Abuser<'s> {
    server: &'s Running,
    /// Where it comes from: one stranger's connections do not count for another.
    address: Ipv4Addr,
    over: &'s AtomicBool,
    random: Random,
    /// Counts whatever must not come twice.
    number: Cell<u64>,
}

type Abuse = fn(&mut Abuser<'_>) -> io::Result<()>;

/// All there are, by name.
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

/// Sets all of them upon the server; each tells in the end how many rounds it had.
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
                // That the server hangs up is what it should do.
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
    fn connect(&self, door: ListenerKind) -> io::Result<TcpStream> {
        let stream = self.server.connect(self.address, door)?;
        let patience = Some(Duration::from_secs(15));
        stream.set_read_timeout(patience)?;
        stream.set_write_timeout(patience)?;
        Ok(stream)
    }

    fn connections(&self, door: ListenerKind, count: usize) -> Vec<TcpStream> {
        (0..count).filter_map(|_| self.connect(door).ok()).collect()
    }

    fn next_number(&self) -> u64 {
        self.number.replace(self.number.get() + 1)
    }

    /// Sends these bytes again and again through all of them, slowly, until none is left.
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

/// Nothing, or only the beginning of something, through every door.
fn silent_connections(abuser: &mut Abuser<'_>) -> io::Result<()> {
    let beginnings: [(ListenerKind, &[u8]); 5] = [
        (ListenerKind::Decisions, b""),
        (ListenerKind::Decisions, b"PRI * HTTP/2.0\r\n"),
        (ListenerKind::Grpc, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (ListenerKind::Resp, b""),
        (ListenerKind::Resp, b"*2\r\n$1000\r\nhalf"),
    ];
    let mut streams = Vec::new();
    for (door, beginning) in beginnings.iter().cycle().take(HELD) {
        let mut stream = abuser.connect(*door)?;
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
    let rounds: [Round; 7] = [
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
        |_| vec![frame(SETTINGS, 0, 0, &[]); 100],
        |n| vec![frame(HEADERS, END_HEADERS, stream(n), POST)],
    ];
    let round = *abuser.random.pick(&rounds);
    let door = *abuser.random.pick(&[ListenerKind::Decisions, ListenerKind::Grpc]);
    let raw = Raw::over(abuser.connect(door)?)?;
    let over = abuser.over;
    // An unknown frame of too many bytes ends whatever the server would still put up with when it is over.
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
    // Questions without end whose answers nobody reads.
    let mut deaf = abuser.connect(ListenerKind::Resp)?;
    let questions = request(&["ECHO", &"x".repeat(1_000)]).repeat(FLOOD);
    while deaf.write_all(&questions).is_ok() && !abuser.is_over() {}
    Ok(())
}

fn too_many_connections(abuser: &mut Abuser<'_>) -> io::Result<()> {
    let door = *abuser.random.pick(&[ListenerKind::Decisions, ListenerKind::Grpc, ListenerKind::Resp]);
    let held = abuser.connections(door, OVER_THE_BOUND);
    abuser.trickle(held, b"");
    Ok(())
}

/// Subjects that nobody has seen before and nobody will see again, each as long as may be.
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
        // The rest is five numbers, each in a line of its own.
        let mut lines = 0;
        while lines < 5 {
            let mut byte = [0];
            reading.read_exact(&mut byte)?;
            lines += usize::from(byte[0] == b'\n');
        }
    }
    Ok(())
}

/// Gone before the request is whole, or before the answer is read.
fn aborted_requests(abuser: &mut Abuser<'_>) -> io::Result<()> {
    let body = r#"{"policy": "api", "subject": "aborted"}"#;
    let whole = format!("POST /v1/take HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    for _ in 0..HELD {
        let cut = abuser.random.index(whole.len() + 1);
        abuser.connect(ListenerKind::Decisions)?.write_all(&whole.as_bytes()[..cut])?;
    }
    Ok(())
}
