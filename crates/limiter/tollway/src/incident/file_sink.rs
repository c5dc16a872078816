//! Writes incidents to their file, on a thread that starts with the first one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Incident, IncidentFile, IncidentSink};

/// How many incidents wait for a slow disk.
const QUEUE_MAX: usize = 1_024;

/// The sink named `file`.
pub(super) struct FileSink {
    writer: Arc<Writer>,
}

struct Writer {
    file: IncidentFile,
    queue: Mutex<Queue>,
    changed: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<Incident>>,
    /// Whether the thread runs.
    running: bool,
    /// Whether the thread is writing.
    writing: bool,
    /// Whether the limiter is gone.
    closing: bool,
}

impl FileSink {
    pub(super) fn new(file: IncidentFile) -> Self {
        let (queue, changed, dropped) = Default::default();
        Self { writer: Arc::new(Writer { file, queue, changed, dropped }) }
    }
}

impl IncidentSink for FileSink {
    fn name(&self) -> &'static str {
        "file"
    }

    fn send(&self, incident: &Arc<Incident>) {
        let mut queue = self.writer.queue();
        if queue.waiting.len() >= QUEUE_MAX {
            self.writer.drop_incidents(1);
            return;
        }
        queue.waiting.push_back(Arc::clone(incident));
        if !queue.running {
            let writer = Arc::clone(&self.writer);
            let thread = thread::Builder::new().name("tollway-incidents".to_owned());
            queue.running = thread.spawn(move || writer.run()).is_ok();
        }
        if !queue.running {
            // Without a thread they would wait for ever.
            self.writer.drop_incidents(queue.waiting.len());
            queue.waiting.clear();
        }
        self.writer.changed.notify_all();
    }

    fn dropped(&self) -> u64 {
        self.writer.dropped.load(Ordering::Relaxed)
    }

    fn flush(&self, within: Duration) -> bool {
        let busy = |queue: &mut Queue| queue.writing || !queue.waiting.is_empty();
        let waited = self.writer.changed.wait_timeout_while(self.writer.queue(), within, busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        self.writer.queue().closing = true;
        self.writer.changed.notify_all();
    }
}

impl Writer {
    fn run(&self) {
        let mut told = false;
        let mut queue = self.queue();
        loop {
            if queue.waiting.is_empty() {
                if queue.closing {
                    return;
                }
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let batch: Vec<Arc<Incident>> = queue.waiting.drain(..).collect();
            queue.writing = true;
            drop(queue);
            self.write(&batch, &mut told);
            queue = self.queue();
            queue.writing = false;
            self.changed.notify_all();
        }
    }

    /// Says once that the file cannot be written, until it can be again.
    fn write(&self, batch: &[Arc<Incident>], told: &mut bool) {
        match self.file.append(batch) {
            Ok(()) => *told = false,
            Err(error) => {
                self.drop_incidents(batch.len());
                if !*told {
                    let path = self.file.path().display();
                    tracing::warn!(%error, %path, "incidents cannot be written to their file; see `file` of [incidents]");
                }
                *told = true;
            }
        }
    }

    fn drop_incidents(&self, count: usize) {
        self.dropped.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
