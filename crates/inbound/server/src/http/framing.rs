//! Finds requests of HTTP/1 whose bodies have two lengths: `Content-Length` beside `Transfer-Encoding`, or twice.
//!
//! The HTTP library keeps the chunks and drops the length, so a handler does not see that there were two. A proxy in front may
//! have kept the other one, and then takes the rest of the body for a request. This follows the lines of heads and the lengths
//! of bodies. What the library refuses need not be followed: it closes the connection.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use super::checked_stream::ArrivalCheck;
use crate::bounds::HEAD_BYTES_MAX;

/// Whether a request of a connection had two lengths. It stays so: the connection serves no other request.
pub(super) type TwoLengths = Rc<Cell<bool>>;

/// Follows the requests of a connection.
pub(super) struct FramingCheck {
    requests: RequestFraming,
    two_lengths: TwoLengths,
}

impl FramingCheck {
    pub(super) fn new(two_lengths: &TwoLengths) -> Self {
        Self { requests: RequestFraming::default(), two_lengths: Rc::clone(two_lengths) }
    }
}

/// Where the requests of a connection begin and end.
#[derive(Default)]
struct RequestFraming {
    position: Position,
    /// The beginning of a line that is not complete yet.
    begun: Vec<u8>,
}

/// What the next byte of a connection belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    #[default]
    RequestLine,
    Headers(Lengths),
    /// A body of which this many bytes are missing.
    Body(u64),
    ChunkSize,
    /// A chunk of which this many bytes are missing, with the end of its line.
    Chunk(u64),
    Trailers,
    /// HTTP/2, or nothing that the library reads.
    Unknown,
    /// A request had two lengths.
    TwoLengths,
}

/// The lengths that a head has named so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lengths {
    length: Option<u64>,
    is_chunked: bool,
}

impl RequestFraming {
    /// Follows these bytes, which come after those of the last call. False from the first request on that has two lengths.
    fn follow(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let used = match self.position {
                Position::Unknown => return true,
                Position::TwoLengths => return false,
                Position::Body(missing) => self.skip(missing, bytes, Position::Body, Position::RequestLine),
                Position::Chunk(missing) => self.skip(missing, bytes, Position::Chunk, Position::ChunkSize),
                _ => self.line(bytes),
            };
            bytes = bytes.get(used..).unwrap_or_default();
        }
        self.position != Position::TwoLengths
    }

    /// Leaves out as many of these bytes as are missing, and returns how many.
    fn skip(&mut self, missing: u64, bytes: &[u8], rest: fn(u64) -> Position, then: Position) -> usize {
        let here = u64::try_from(bytes.len()).unwrap_or(u64::MAX).min(missing);
        let left = missing.saturating_sub(here);
        self.position = if left == 0 { then } else { rest(left) };
        usize::try_from(here).unwrap_or(usize::MAX)
    }

    /// Reads a line, or the part of it that is there, and returns its length.
    fn line(&mut self, bytes: &[u8]) -> usize {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (part, _) = bytes.split_at(end.map_or(bytes.len(), |end| end.saturating_add(1)));
        if end.is_some() && self.begun.is_empty() {
            self.position = after(self.position, part.trim_ascii());
            return part.len();
        }
        self.begun.extend_from_slice(part);
        if end.is_some() {
            let line = std::mem::take(&mut self.begun);
            self.position = after(self.position, line.trim_ascii());
        } else if self.begun.len() > HEAD_BYTES_MAX {
            self.begun = Vec::new();
            self.position = Position::Unknown;
        }
        part.len()
    }
}

/// What follows a line at this position.
fn after(position: Position, line: &[u8]) -> Position {
    match position {
        // The library leaves out empty lines before a request.
        Position::RequestLine if line.is_empty() => Position::RequestLine,
        Position::RequestLine if line.ends_with(b"HTTP/2.0") => Position::Unknown,
        Position::RequestLine => Position::Headers(Lengths::default()),
        Position::Headers(lengths) if line.is_empty() => match lengths {
            Lengths { is_chunked: true, .. } => Position::ChunkSize,
            Lengths { length: Some(length), .. } if length > 0 => Position::Body(length),
            _ => Position::RequestLine,
        },
        Position::Headers(lengths) => header(lengths, line),
        Position::ChunkSize => match chunk_size(line) {
            Some(0) => Position::Trailers,
            Some(size) => Position::Chunk(size.saturating_add(2)),
            None => Position::Unknown,
        },
        Position::Trailers if line.is_empty() => Position::RequestLine,
        other => other,
    }
}

fn header(lengths: Lengths, line: &[u8]) -> Position {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else { return Position::Unknown };
    let (name, value) = line.split_at(colon);
    let is_length = name.eq_ignore_ascii_case(b"content-length");
    let is_coding = name.eq_ignore_ascii_case(b"transfer-encoding");
    if !is_length && !is_coding {
        return Position::Headers(lengths);
    }
    if lengths.length.is_some() || is_length && lengths.is_chunked {
        return Position::TwoLengths;
    }
    if is_coding {
        return Position::Headers(Lengths { is_chunked: true, ..lengths });
    }
    let digits = std::str::from_utf8(value.get(1..).unwrap_or_default().trim_ascii()).ok();
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(length) => Position::Headers(Lengths { length: Some(length), ..lengths }),
        None => Position::Unknown,
    }
}

/// The number at the beginning of the line before a chunk. What follows it means nothing.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let digits = std::str::from_utf8(line.get(..end)?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

impl ArrivalCheck for FramingCheck {
    /// The request is refused where it is answered, so the read succeeds.
    fn arrived(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.requests.follow(bytes) {
            self.two_lengths.set(true);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether every request of a connection has one length at most, in pieces of this size.
    fn is_clear(bytes: &str, piece: usize) -> bool {
        let mut framing = RequestFraming::default();
        bytes.as_bytes().chunks(piece).fold(true, |_, piece| framing.follow(piece))
    }

    const TWO: &str = "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";

    #[test]
    fn two_lengths_are_found_in_any_order_and_pieces() {
        for two in [
            TWO.to_owned(),
            "POST / HTTP/1.1\nhost: a\ntransfer-encoding:chunked\ncontent-length:\t3\n\n".to_owned(),
            "POST / HTTP/1.1\r\ncontent-length: 3\r\nx: y\r\ncontent-length: 3\r\n\r\nabc".to_owned(),
            format!("\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n{TWO}"),
            format!("POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello{TWO}"),
            format!(
                "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5;a=b\r\nhe\r\no\r\n0\r\nx: y\r\n\r\n{TWO}"
            ),
        ] {
            for piece in [1, 2, 3, 7, 50, 10_000] {
                assert!(!is_clear(&two, piece), "pieces of {piece}: {two}");
            }
        }
    }

    #[test]
    fn bodies_are_no_heads() {
        let chunk = format!("{:x}\r\n{TWO}\r\n0\r\n\r\n", TWO.len());
        for one in [
            format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n{TWO}GET / HTTP/1.1\r\n\r\n", TWO.len()),
            format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{chunk}GET / HTTP/1.1\r\n\r\n"),
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n".to_owned(),
            format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{TWO}"),
            format!("POST / HTTP/1.1\r\nno colon\r\n{TWO}"),
        ] {
            for piece in [1, 2, 3, 7, 50, 100_000] {
                assert!(is_clear(&one, piece), "pieces of {piece}: {one}");
            }
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let mut framing = RequestFraming::default();
        for _ in 0..100 {
            assert!(framing.follow(&[b'x'; 1_000]));
            assert!(framing.begun.len() <= HEAD_BYTES_MAX);
        }
        assert_eq!(framing.position, Position::Unknown);
    }
}
