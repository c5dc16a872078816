//! Bounded reading of lines.

use std::io::{self, BufRead};

use super::RECORD_BYTES_MAX;
use super::error::RecordFault;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line of an input.
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    /// Without its line feed; a carriage return before it stays.
    pub(super) text: Result<String, RecordFault>,
}

/// Reads lines. A line that is too long is never in memory as a whole.
pub(super) struct Lines<R> {
    input: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, number: 0 }
    }

    /// The next line; none at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line = Vec::new();
        let (mut begun, mut too_long) = (false, false);
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if bytes.is_empty() && !begun {
                return Ok(None);
            }
            begun = true;
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = &bytes[..end.unwrap_or(bytes.len())];
            if line.len() + taken.len() > RECORD_BYTES_MAX {
                too_long = true;
                line = Vec::new();
            } else if !too_long {
                line.extend_from_slice(taken);
            }
            let is_last = end.is_some() || bytes.is_empty();
            let consumed = end.map_or(bytes.len(), |end| end + 1);
            self.input.consume(consumed);
            if is_last {
                break;
            }
        }
        self.number += 1;
        if self.number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        let text = if too_long {
            Err(RecordFault::TooLong)
        } else {
            String::from_utf8(line).map_err(|_| RecordFault::NotUtf8)
        };
        Ok(Some(Line { number: self.number, text }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    fn all(input: impl Read, capacity: usize) -> Vec<(u64, Result<String, RecordFault>)> {
        let mut lines = Lines::new(BufReader::with_capacity(capacity, input));
        std::iter::from_fn(|| lines.next().unwrap()).map(|line| (line.number, line.text)).collect()
    }

    #[test]
    fn lines_are_the_same_for_every_buffer() {
        let input = b"\xef\xbb\xbfone\r\n\n\xff\nlast";
        let expected = [
            (1, Ok("one\r".to_owned())),
            (2, Ok(String::new())),
            (3, Err(RecordFault::NotUtf8)),
            (4, Ok("last".to_owned())),
        ];
        for capacity in 1..20 {
            assert_eq!(all(&input[..], capacity), expected, "{capacity}");
        }
        assert_eq!(all(&b""[..], 8), []);
        assert_eq!(all(&b"\n"[..], 8), [(1, Ok(String::new()))]);
    }

    #[test]
    fn long_line_is_skipped_and_the_next_is_read() {
        let longest = RECORD_BYTES_MAX as u64;
        let input = io::repeat(b'x').take(longest).chain(&b"\n"[..]);
        let input = input.chain(io::repeat(b'x').take(longest + 1)).chain(&b"\nnext"[..]);
        let lines = all(input, 1 << 16);
        assert_eq!(lines[0].1.as_ref().map(String::len), Ok(RECORD_BYTES_MAX));
        assert_eq!(lines[1..], [(2, Err(RecordFault::TooLong)), (3, Ok("next".to_owned()))]);
    }
}
