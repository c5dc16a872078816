//! Closes the connection of an HTTP/2 client that floods the server with control frames.
//!
//! The HTTP/2 library reads PING, SETTINGS, PRIORITY, WINDOW_UPDATE, unknown and empty frames without a bound, and logs some
//! of them. They cost the client almost nothing. This counts them by the headers of the frames, before the library reads them.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use super::checked_stream::ArrivalCheck;
use crate::bounds::{CONTROL_FRAMES_INTERVAL, CONTROL_FRAMES_MAX, CONTROL_FRAMES_PER_REQUEST};
use crate::counts::count;
use crate::listener::ListenerKind;
use crate::worker::Worker;

/// The first bytes of an HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEADER_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PADDED: u8 = 8;

/// Fails the reads of a connection once its client has sent too many control frames.
pub(super) struct ControlFrameLimit {
    frames: FrameCounter,
    worker: Rc<Worker>,
    listener: ListenerKind,
}

impl ControlFrameLimit {
    pub(super) fn new(worker: &Rc<Worker>, listener: ListenerKind) -> Self {
        Self { frames: FrameCounter::new(worker.time()), worker: Rc::clone(worker), listener }
    }
}

/// Finds the frames in the bytes of a connection, and counts them.
struct FrameCounter {
    position: Position,
    /// The control frames that may still arrive before the allowance is renewed.
    allowed: u32,
    renewed_at: Duration,
}

/// What the next byte of the connection belongs to.
enum Position {
    /// The preface, of which this many bytes have arrived.
    Preface(usize),
    /// The header of a frame, of which this many bytes have arrived.
    Header([u8; HEADER_BYTES], usize),
    /// The payload of a frame, of which this many bytes are missing.
    Payload(usize),
    /// HTTP/1, which has no frames and never changes to HTTP/2: this server offers no upgrade.
    Http1,
}

impl FrameCounter {
    fn new(now: Duration) -> Self {
        Self { position: Position::Preface(0), allowed: CONTROL_FRAMES_MAX, renewed_at: now }
    }

    /// Counts the frames in these bytes, which follow those of the last call. False if there are too many.
    fn count(&mut self, mut bytes: &[u8], now: Duration) -> bool {
        while !bytes.is_empty() {
            match &mut self.position {
                Position::Http1 => return true,
                Position::Preface(matched) => {
                    let (_, expected) = PREFACE.split_at(*matched);
                    let (part, rest) = bytes.split_at(expected.len().min(bytes.len()));
                    *matched = matched.saturating_add(part.len());
                    if !expected.starts_with(part) {
                        self.position = Position::Http1;
                    } else if *matched == PREFACE.len() {
                        self.position = Position::Header([0; HEADER_BYTES], 0);
                    }
                    bytes = rest;
                }
                Position::Header(header, filled) => {
                    let missing = HEADER_BYTES.saturating_sub(*filled);
                    let (part, rest) = bytes.split_at(missing.min(bytes.len()));
                    header.iter_mut().skip(*filled).zip(part).for_each(|(to, from)| *to = *from);
                    *filled = filled.saturating_add(part.len());
                    if *filled == HEADER_BYTES {
                        let header = *header;
                        if !self.begin_frame(header, now) {
                            return false;
                        }
                    }
                    bytes = rest;
                }
                Position::Payload(missing) => {
                    let (part, rest) = bytes.split_at((*missing).min(bytes.len()));
                    *missing = missing.saturating_sub(part.len());
                    if *missing == 0 {
                        self.position = Position::Header([0; HEADER_BYTES], 0);
                    }
                    bytes = rest;
                }
            }
        }
        true
    }

    fn begin_frame(&mut self, header: [u8; HEADER_BYTES], now: Duration) -> bool {
        let [high, middle, low, kind, flags, ..] = header;
        let length = usize::try_from(u32::from_be_bytes([0, high, middle, low])).unwrap_or(usize::MAX);
        self.position = match length {
            0 => Position::Header([0; HEADER_BYTES], 0),
            missing => Position::Payload(missing),
        };
        match kind {
            HEADERS => {
                let allowed = self.allowed.saturating_add(CONTROL_FRAMES_PER_REQUEST);
                self.allowed = allowed.min(CONTROL_FRAMES_MAX);
                true
            }
            // Padding alone is an empty frame, too.
            DATA if length > 0 && flags & PADDED == 0 => true,
            _ => self.allow(now),
        }
    }

    /// Whether one more control frame is allowed.
    fn allow(&mut self, now: Duration) -> bool {
        if self.allowed == 0 && now.saturating_sub(self.renewed_at) >= CONTROL_FRAMES_INTERVAL {
            (self.allowed, self.renewed_at) = (CONTROL_FRAMES_MAX, now);
        }
        let allowed = self.allowed.checked_sub(1);
        self.allowed = allowed.unwrap_or_default();
        allowed.is_some()
    }
}

impl ArrivalCheck for ControlFrameLimit {
    fn arrived(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.frames.count(bytes, self.worker.time()) {
            return Ok(());
        }
        count(&self.worker.state.counts.at(self.listener).cut_off);
        Err(io::Error::other("the client sent too many HTTP/2 control frames"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn frames(kind: u8, flags: u8, payload: &[u8], count: u32) -> Vec<u8> {
        frame(kind, flags, payload).repeat(usize::try_from(count).unwrap())
    }

    /// Whether a connection that sends these bytes after the preface, in pieces of this size, survives.
    fn survives(bytes: &[u8], piece: usize) -> bool {
        let mut counter = FrameCounter::new(Duration::ZERO);
        [PREFACE, bytes].concat().chunks(piece).all(|piece| counter.count(piece, Duration::ZERO))
    }

    #[test]
    fn frames_are_found_wherever_reads_split_them() {
        let allowed = frames(PING, 1, &[6; 8], CONTROL_FRAMES_MAX - 1);
        let data = frame(DATA, 0, &frames(PING, 0, &[0; 8], 100));
        let good = [allowed, data, frame(PING, 0, &[])].concat();
        let one_more = [&good[..], &frame(WINDOW_UPDATE, 0, &[0, 0, 0, 1])].concat();
        for piece in [1, 2, 3, 5, 8, 9, 10, 17, 24, 25, 1_000, usize::MAX] {
            assert!(survives(&good, piece), "pieces of {piece}");
            assert!(!survives(&one_more, piece), "pieces of {piece}");
        }
    }

    #[test]
    fn only_requests_and_bodies_are_free() {
        let many = 2 * CONTROL_FRAMES_MAX;
        assert!(survives(&frames(DATA, 0, b"x", many), 1_000));
        assert!(survives(&frames(HEADERS, 5, b"x", many), 1_000));
        for (kind, flags, payload) in
            [(DATA, 0, &b""[..]), (DATA, PADDED, &[0]), (2, 0, &[0; 5]), (0xfa, 0, b"")]
        {
            assert!(!survives(&frames(kind, flags, payload, many), 1_000), "{kind} {flags} {payload:?}");
        }
    }

    #[test]
    fn each_request_allows_a_few_more() {
        let request =
            [frame(HEADERS, 5, b"x"), frames(WINDOW_UPDATE, 0, &[0, 0, 0, 1], CONTROL_FRAMES_PER_REQUEST)];
        let request = request.concat();
        assert!(survives(&request.repeat(5_000), 4_096));
        let one_more = [request, frame(PING, 0, &[0; 8])].concat();
        assert!(!survives(&one_more.repeat(5_000), 4_096));
    }

    #[test]
    fn the_allowance_is_renewed_when_its_interval_is_over() {
        let mut counter = FrameCounter::new(Duration::ZERO);
        assert!(counter.count(PREFACE, Duration::ZERO));
        let all = frames(PING, 0, &[0; 8], CONTROL_FRAMES_MAX);
        for intervals in 0..5 {
            assert!(counter.count(&all, intervals * CONTROL_FRAMES_INTERVAL), "{intervals}");
        }
        assert!(!counter.count(&all, 4 * CONTROL_FRAMES_INTERVAL + CONTROL_FRAMES_INTERVAL / 2));
    }

    #[test]
    fn http1_is_not_counted() {
        let mut counter = FrameCounter::new(Duration::ZERO);
        assert!(counter.count(b"PRI /v1/take HTTP/1.1\r\n\r\n", Duration::ZERO));
        let looks_like_frames = frames(PING, 0, &[0; 8], 2 * CONTROL_FRAMES_MAX);
        assert!(counter.count(&looks_like_frames, Duration::ZERO));
    }
}
