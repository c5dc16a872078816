//! RESP replies, appended to a buffer.

use std::fmt::Display;
use std::io::Write;

/// The protocol version of a client. They differ in maps and verbatim text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

/// A buffer of replies.
pub(super) trait Reply {
    /// A simple string; the word has no line ends.
    fn simple(&mut self, word: &str);
    /// An error. Line ends in the text would end the reply, and become spaces.
    fn error(&mut self, text: impl Display);
    fn integer(&mut self, number: i64);
    /// Any bytes.
    fn bulk(&mut self, bytes: &[u8]);
    /// The head of an array: this many replies follow.
    fn array(&mut self, entries: usize);
    /// Verbatim text; a bulk string in RESP2.
    fn text(&mut self, text: &str, protocol: Protocol);
    /// The head of a map: this many pairs of replies follow.
    fn map(&mut self, pairs: usize, protocol: Protocol);
}

impl Reply for Vec<u8> {
    fn simple(&mut self, word: &str) {
        line(self, b'+', word.as_bytes());
    }

    fn error(&mut self, text: impl Display) {
        self.push(b'-');
        let begin = self.len();
        // Writing to a `Vec` cannot fail.
        let _ = write!(self, "{text}");
        for byte in self.iter_mut().skip(begin).filter(|byte| matches!(byte, b'\r' | b'\n')) {
            *byte = b' ';
        }
        self.extend_from_slice(b"\r\n");
    }

    fn integer(&mut self, number: i64) {
        line(self, b':', itoa::Buffer::new().format(number).as_bytes());
    }

    fn bulk(&mut self, bytes: &[u8]) {
        line(self, b'$', itoa::Buffer::new().format(bytes.len()).as_bytes());
        self.extend_from_slice(bytes);
        self.extend_from_slice(b"\r\n");
    }

    fn array(&mut self, entries: usize) {
        line(self, b'*', itoa::Buffer::new().format(entries).as_bytes());
    }

    fn text(&mut self, text: &str, protocol: Protocol) {
        match protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                let length = text.len().saturating_add(TEXT_FORMAT.len());
                line(self, b'=', itoa::Buffer::new().format(length).as_bytes());
                self.extend_from_slice(TEXT_FORMAT);
                self.extend_from_slice(text.as_bytes());
                self.extend_from_slice(b"\r\n");
            }
        }
    }

    fn map(&mut self, pairs: usize, protocol: Protocol) {
        match protocol {
            Protocol::Resp2 => self.array(pairs.saturating_mul(2)),
            Protocol::Resp3 => line(self, b'%', itoa::Buffer::new().format(pairs).as_bytes()),
        }
    }
}

/// The format prefix of verbatim text: plain text.
const TEXT_FORMAT: &[u8] = b"txt:";

#[inline]
fn line(out: &mut Vec<u8>, sign: u8, text: &[u8]) {
    out.push(sign);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_in_an_error_become_spaces() {
        let mut out = Vec::new();
        out.error("ERR a\r\nb");
        assert_eq!(out, b"-ERR a  b\r\n");
    }

    #[test]
    fn a_map_is_an_array_in_resp2() {
        let written = |protocol| {
            let mut out = Vec::new();
            out.map(2, protocol);
            out
        };
        assert_eq!([written(Protocol::Resp2), written(Protocol::Resp3)], [b"*4\r\n", b"%2\r\n"]);
    }
}
