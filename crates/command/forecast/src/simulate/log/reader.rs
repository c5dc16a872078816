//! Reads a log on its own thread, and hands calls over in batches. At most a few batches wait.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::fields::Found;
use super::format::{Format, LogFormat};
use super::lines::{LINE_BYTES_MAX, LineRead, Lines};
use super::{Fields, LoggedCall, Reason, csv};
use crate::simulate::error::SimulateError;

/// How many calls one batch holds.
const BATCH_CALLS: usize = 4_096;

/// How many batches may wait to be replayed.
const BATCHES_WAITING: usize = 8;

/// How many lines are sampled to detect the format and the fields.
const SAMPLE_LINES: usize = 32;

/// The most lines of a CSV record with line ends inside quotes. An unclosed quote costs one line, and this many lines are
/// read twice.
const RECORD_LINES_MAX: usize = 64;

/// How many unreadable lines are remembered with their reasons.
const UNREADABLE_SHOWN: usize = 5;

/// How often `stop` is called while no lines arrive.
const BATCH_WAIT: Duration = Duration::from_millis(100);

/// A log that is being read.
pub struct Log {
    batches: Receiver<Result<Batch, SimulateError>>,
    bytes_done: Arc<AtomicU64>,
    format: LogFormat,
    subject: Option<String>,
    units: Vec<String>,
}

/// Calls, and the lines between them that are not calls.
#[derive(Debug, Default)]
pub struct Batch {
    /// The calls.
    pub calls: Vec<LoggedCall>,
    /// How many lines were skipped.
    pub skipped: u64,
    /// The first few skipped lines.
    pub unreadable: Vec<Unreadable>,
}

/// A line that is not a call.
#[derive(Debug)]
pub struct Unreadable {
    /// Its number, from 1.
    pub line: u64,
    /// Why.
    pub reason: Cow<'static, str>,
}

impl Log {
    /// Detects the format from the first lines unless it is given, finds the fields, and begins to read.
    pub fn read(
        input: Box<dyn Read + Send>,
        format: Option<LogFormat>,
        fields: Fields,
    ) -> Result<Self, SimulateError> {
        let mut lines = Lines::new(input);
        let sample = take_sample(&mut lines)?;
        let texts: Vec<&str> =
            sample.iter().filter_map(|(_, line)| str::from_utf8(line.as_deref()?).ok()).collect();
        let texts: Vec<&str> = texts.into_iter().filter(|text| !text.trim_ascii().is_empty()).collect();
        if texts.is_empty() && sample.len() < SAMPLE_LINES {
            return Err(SimulateError::Empty);
        }
        let found = fields.find(Format::of(format, &texts)?, &texts)?;
        let (sender, batches) = sync_channel(BATCHES_WAITING);
        let (format, bytes_done) = (found.format().name(), lines.bytes_done());
        let (subject, units) = (found.subject().map(str::to_owned), found.units());
        let header = usize::from(found.format().has_header());
        let waiting = sample.into_iter().skip(header).collect();
        let worker = Worker { lines, waiting, found, sender, batch: Batch::default(), shown: 0 };
        thread::Builder::new()
            .name("read-log".to_owned())
            .spawn(move || worker.run())
            .map_err(SimulateError::Thread)?;
        Ok(Self { batches, bytes_done, format, subject, units })
    }

    /// The next batch; `None` at the end, or if `stop` returns true while waiting.
    pub fn next(&self, stop: impl Fn() -> bool) -> Result<Option<Batch>, SimulateError> {
        while !stop() {
            match self.batches.recv_timeout(BATCH_WAIT) {
                Ok(batch) => return batch.map(Some),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(None)
    }

    /// How many bytes were read so far.
    pub fn bytes_done(&self) -> u64 {
        self.bytes_done.load(Ordering::Relaxed)
    }

    /// Its format.
    pub fn format(&self) -> LogFormat {
        self.format
    }

    /// The field of the subject; without one, all calls share one.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// The units whose amounts its calls carry, in their order.
    pub fn units(&self) -> &[String] {
        &self.units
    }
}

/// A line with its number; none where it was too long.
type Numbered = (u64, Option<Vec<u8>>);

fn take_sample(lines: &mut Lines) -> Result<Vec<Numbered>, SimulateError> {
    let mut sample = Vec::new();
    let mut line = Vec::new();
    while sample.len() < SAMPLE_LINES {
        match lines.read(&mut line)? {
            // A later blank line may be part of a quoted value.
            LineRead::Line if sample.is_empty() && line.trim_ascii().is_empty() => {}
            LineRead::Line => sample.push((lines.number(), Some(line.clone()))),
            LineRead::TooLong => sample.push((lines.number(), None)),
            LineRead::End => break,
        }
    }
    Ok(sample)
}

struct Worker {
    lines: Lines,
    /// Lines that were read but not parsed yet.
    waiting: VecDeque<Numbered>,
    found: Found,
    sender: SyncSender<Result<Batch, SimulateError>>,
    batch: Batch,
    shown: usize,
}

/// The receiver is gone.
struct Unheard;

impl Worker {
    fn run(mut self) {
        let sent = self.read_all().and_then(|()| self.send());
        drop(sent); // the receiver is gone
    }

    fn read_all(&mut self) -> Result<(), Unheard> {
        let mut line = Vec::new();
        loop {
            let understood = match self.next(&mut line) {
                Ok((_, LineRead::End)) => return Ok(()),
                Ok((number, LineRead::TooLong)) => Ok((number, Err(too_long()))),
                Ok((number, LineRead::Line)) => match self.understand(&line) {
                    Err(reason) if reason == csv::UNCLOSED => self.join(&line).map(|joined| (number, joined)),
                    understood => Ok((number, understood)),
                },
                Err(error) => Err(error),
            };
            match understood {
                Ok((number, understood)) => self.add(number, understood)?,
                Err(error) => return self.sender.send(Err(error)).map_err(|_| Unheard),
            }
        }
    }

    /// The next line, with its number.
    fn next(&mut self, line: &mut Vec<u8>) -> Result<(u64, LineRead), SimulateError> {
        match self.waiting.pop_front() {
            Some((number, Some(kept))) => {
                *line = kept;
                Ok((number, LineRead::Line))
            }
            Some((number, None)) => Ok((number, LineRead::TooLong)),
            None => {
                let read = self.lines.read(line)?;
                Ok((self.lines.number(), read))
            }
        }
    }

    /// A record over several lines, until its quote is closed. If it is never closed, each line is its own record.
    fn join(&mut self, first: &[u8]) -> Result<Result<Option<LoggedCall>, Reason>, SimulateError> {
        let mut record = first.to_vec();
        let mut taken = Vec::new();
        while taken.len() < RECORD_LINES_MAX {
            let mut line = Vec::new();
            let (number, read) = self.next(&mut line)?;
            match read {
                LineRead::End => break,
                LineRead::Line if record.len() + line.len() < LINE_BYTES_MAX => {}
                LineRead::Line | LineRead::TooLong => {
                    taken.push((number, (read == LineRead::Line).then_some(line)));
                    break;
                }
            }
            record.push(b'\n');
            record.extend_from_slice(&line);
            taken.push((number, Some(line)));
            match self.understand(&record) {
                Err(reason) if reason == csv::UNCLOSED => {}
                understood => return Ok(understood),
            }
        }
        for line in taken.into_iter().rev() {
            self.waiting.push_front(line);
        }
        Ok(Err(csv::UNCLOSED.into()))
    }

    fn add(&mut self, number: u64, understood: Result<Option<LoggedCall>, Reason>) -> Result<(), Unheard> {
        match understood {
            Ok(Some(call)) => self.batch.calls.push(call),
            Ok(None) => {}
            Err(reason) => {
                self.batch.skipped += 1;
                if self.shown < UNREADABLE_SHOWN {
                    self.shown += 1;
                    self.batch.unreadable.push(Unreadable { line: number, reason });
                }
            }
        }
        let full = self.batch.calls.len() >= BATCH_CALLS || self.batch.skipped >= BATCH_CALLS as u64;
        if full { self.send() } else { Ok(()) }
    }

    /// Parses a call; `None` for a blank line.
    fn understand(&self, line: &[u8]) -> Result<Option<LoggedCall>, Reason> {
        let text = str::from_utf8(line).map_err(|_| "not UTF-8")?;
        if text.trim_ascii().is_empty() { Ok(None) } else { self.found.read(text).map(Some) }
    }

    fn send(&mut self) -> Result<(), Unheard> {
        let next = Batch { calls: Vec::with_capacity(BATCH_CALLS), ..Batch::default() };
        let batch = std::mem::replace(&mut self.batch, next);
        self.sender.send(Ok(batch)).map_err(|_| Unheard)
    }
}

fn too_long() -> Reason {
    format!("longer than {LINE_BYTES_MAX} bytes").into()
}
