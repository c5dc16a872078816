//! Bounded reading of what a process prints.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

use crate::bounds::DETAIL_BYTES_MAX;

/// The longest line of a handler: each process keeps one in memory.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;

/// What a process printed.
pub(super) enum Line {
    /// A line, without its end.
    Whole(Vec<u8>),
    /// The beginning of a line that is too long.
    TooLong(Vec<u8>),
    /// The output ended.
    End,
}

/// Reads lines. A read that is dropped loses nothing.
pub(super) struct Lines<R> {
    output: BufReader<R>,
    line: Vec<u8>,
    /// The rest of a line that is too long is skipped.
    skips: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(output: R) -> Self {
        Self { output: BufReader::with_capacity(1 << 16, output), line: Vec::new(), skips: false }
    }

    pub(super) async fn next(&mut self) -> Line {
        loop {
            let Ok(bytes) = self.output.fill_buf().await else { return Line::End };
            if bytes.is_empty() {
                // Half a line is what a process that died was about to say.
                return Line::End;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(bytes.len());
            let skips = self.skips;
            if !skips {
                self.line.extend_from_slice(&bytes[..taken]);
            }
            self.output.consume(end.map_or(taken, |end| end + 1));
            let too_long = self.line.len() > LINE_BYTES_MAX;
            self.skips = (skips || too_long) && end.is_none();
            if too_long {
                return Line::TooLong(std::mem::take(&mut self.line));
            }
            if end.is_some() && !skips {
                return Line::Whole(std::mem::take(&mut self.line));
            }
        }
    }
}

/// The last words of a process on its error output.
#[derive(Clone, Default)]
pub(super) struct LastWords(Arc<Mutex<Vec<u8>>>);

impl LastWords {
    /// Keeps the end of what is printed, until the output ends.
    pub(super) fn of(
        mut output: impl AsyncRead + Unpin + Send + 'static,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let words = Self::default();
        let kept = words.0.clone();
        let reading = tokio::spawn(async move {
            let mut bytes = vec![0; DETAIL_BYTES_MAX];
            while let Ok(count @ 1..) = output.read(&mut bytes).await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&bytes[..count]);
                let surplus = kept.len().saturating_sub(DETAIL_BYTES_MAX);
                kept.drain(..surplus);
            }
        });
        (words, reading)
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}
