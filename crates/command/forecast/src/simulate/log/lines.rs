//! Bytes to lines, each of bounded length.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::simulate::error::SimulateError;

/// The longest line that is read as a call, in bytes. A longer one is skipped.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// The longest line that is skipped, in bytes. A longer one means a device or a binary file without line ends, whose end may
/// never come.
pub const LINE_BYTES_SKIPPED_MAX: usize = 16 * 1024 * 1024;

/// The largest log, in bytes: hours of replay.
pub const LOG_BYTES_MAX: u64 = 1 << 40;

/// How much is read at once.
const READ_BYTES: usize = 1024 * 1024;

/// The lines of a log, and how many bytes were read so far.
pub(super) struct Lines {
    input: BufReader<Box<dyn Read + Send>>,
    number: u64,
    done: Arc<AtomicU64>,
    bytes_max: u64,
}

/// One line as it was read.
#[derive(Debug, PartialEq)]
pub(super) enum LineRead {
    /// It is in the buffer, without its end.
    Line,
    /// It was longer than [`LINE_BYTES_MAX`], and was skipped.
    TooLong,
    /// There is no further line.
    End,
}

impl Lines {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        let done = Arc::new(AtomicU64::new(0));
        let input = BufReader::with_capacity(READ_BYTES, input);
        Self { input, number: 0, done, bytes_max: LOG_BYTES_MAX }
    }

    /// How many bytes were read so far, for a reader in another thread.
    pub(super) fn bytes_done(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }

    /// The number of the line that was read last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next line into `line`, which is emptied first.
    pub(super) fn read(&mut self, line: &mut Vec<u8>) -> Result<LineRead, SimulateError> {
        line.clear();
        let most = LINE_BYTES_MAX as u64 + 1;
        let mut bytes = self.input.by_ref().take(most).read_until(b'\n', line)?;
        if bytes == 0 {
            return Ok(LineRead::End);
        }
        self.number += 1;
        let whole = line.last() == Some(&b'\n');
        let too_long = !whole && line.len() > LINE_BYTES_MAX;
        if too_long {
            bytes += self.skip_rest()?;
        }
        let before = self.done.fetch_add(bytes as u64, Ordering::Relaxed);
        if before.saturating_add(bytes as u64) > self.bytes_max {
            return Err(SimulateError::TooLarge);
        }
        if too_long {
            return Ok(LineRead::TooLong);
        }
        while let Some(b'\n' | b'\r') = line.last() {
            line.pop();
        }
        if self.number == 1 && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3); // a byte order mark
        }
        Ok(LineRead::Line)
    }

    /// Skips the rest of a line after [`LINE_BYTES_MAX`] bytes; returns its total length.
    fn skip_rest(&mut self) -> Result<usize, SimulateError> {
        let most = LINE_BYTES_SKIPPED_MAX - LINE_BYTES_MAX;
        let skipped = self.input.by_ref().take(most as u64).skip_until(b'\n')?;
        if skipped == most { Err(SimulateError::EndlessLine { line: self.number }) } else { Ok(skipped) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn read_all(text: Vec<u8>) -> Vec<(LineRead, usize)> {
        let mut lines = Lines::new(Box::new(io::Cursor::new(text)));
        let mut line = Vec::new();
        let mut all = Vec::new();
        loop {
            match lines.read(&mut line).unwrap() {
                LineRead::End => return all,
                LineRead::TooLong => all.push((LineRead::TooLong, 0)),
                LineRead::Line => all.push((LineRead::Line, line.len())),
            }
        }
    }

    #[test]
    fn lines_end_with_lf_or_crlf_and_the_last_end_is_optional() {
        assert_eq!(
            read_all(b"\xef\xbb\xbfab\r\n\nabc".to_vec()),
            [(LineRead::Line, 2), (LineRead::Line, 0), (LineRead::Line, 3)]
        );
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut lines = Lines::new(Box::new(io::repeat(0)));
        let read = lines.read(&mut Vec::new());
        assert!(matches!(read, Err(SimulateError::EndlessLine { line: 1 })), "{read:?}");
    }

    #[test]
    fn a_log_over_the_bound_is_refused() {
        let mut lines = Lines::new(Box::new(io::Cursor::new("abc\n".repeat(4))));
        lines.bytes_max = 12;
        let mut read = || lines.read(&mut Vec::new());
        assert!((0..3).all(|_| matches!(read(), Ok(LineRead::Line))));
        assert!(matches!(read(), Err(SimulateError::TooLarge)));
    }

    #[test]
    fn a_line_over_the_bound_is_skipped_and_the_next_is_whole() {
        let mut text = vec![b'x'; LINE_BYTES_MAX];
        text.extend(b"\n");
        text.extend(vec![b'y'; 3 * LINE_BYTES_MAX]);
        text.extend(b"\nabc\n");
        assert_eq!(
            read_all(text),
            [(LineRead::Line, LINE_BYTES_MAX), (LineRead::TooLong, 0), (LineRead::Line, 3)]
        );
    }
}
