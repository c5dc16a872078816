//! Bytes to lines, each of bounded length.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest line. Whoever writes more into one does not write a log of calls.
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;

/// How much is read at once.
const READ_BYTES: usize = 1024 * 1024;

/// The lines of a log, and how many bytes were read so far.
pub(super) struct Lines {
    input: BufReader<Box<dyn Read + Send>>,
    number: u64,
    done: Arc<AtomicU64>,
}

/// One line as it was read.
#[derive(Debug, PartialEq)]
pub(super) enum LineRead {
    /// It is in the buffer, without its end.
    Line,
    /// It was longer than it may be, and was passed over.
    TooLong,
    /// There is no further line.
    End,
}

impl Lines {
    /// Of a file, or of standard input if it is called `-`. With the size, where there is one.
    pub(super) fn open(path: &str) -> io::Result<(Self, Option<u64>)> {
        if path == "-" {
            return Ok((Self::new(Box::new(io::stdin())), None));
        }
        let file = File::open(path)?;
        let about = file.metadata()?;
        if about.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        Ok((Self::new(Box::new(file)), about.is_file().then_some(about.len())))
    }

    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        let done = Arc::new(AtomicU64::new(0));
        Self { input: BufReader::with_capacity(READ_BYTES, input), number: 0, done }
    }

    /// How many bytes were read so far, for who watches from another thread.
    pub(super) fn bytes_done(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }

    /// The number of the line that was read last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next line into `line`, which is emptied first.
    pub(super) fn read(&mut self, line: &mut Vec<u8>) -> io::Result<LineRead> {
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
            bytes += self.input.skip_until(b'\n')?;
        }
        self.done.fetch_add(bytes as u64, Ordering::Relaxed);
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn lines_end_as_they_do_on_any_system_and_the_last_need_not() {
        assert_eq!(
            read_all(b"\xef\xbb\xbfab\r\n\nabc".to_vec()),
            [(LineRead::Line, 2), (LineRead::Line, 0), (LineRead::Line, 3)]
        );
    }

    #[test]
    fn a_line_over_the_bound_is_passed_over_and_the_next_is_whole() {
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
