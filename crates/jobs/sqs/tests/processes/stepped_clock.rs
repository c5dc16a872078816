//! A wall clock that a test sets, for processes and for the vendor.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollway_core::{Clock, Span, Timestamp, Uptime};
use tollway_memory::WallClock;

use crate::now;

/// How often a process reads how far the clock was set.
const READ_EVERY: Duration = Duration::from_millis(2);

/// The machine's clock, and how far it was set: microseconds in a file, which processes share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SteppedClock {
    file: PathBuf,
}

impl SteppedClock {
    pub(crate) fn at(file: &Path) -> Self {
        let clock = Self { file: file.to_owned() };
        clock.set(0);
        clock
    }

    /// How far it is set.
    pub(crate) fn offset(&self) -> i64 {
        std::fs::read_to_string(&self.file).unwrap().trim().parse().unwrap()
    }

    /// Sets it, in microseconds from the machine's.
    pub(crate) fn set(&self, offset: i64) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, offset.to_string()).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    /// A clock for this process, a moment later than the file.
    pub(crate) fn follow(&self) -> Arc<dyn Clock> {
        let offset = Arc::new(AtomicI64::new(self.offset()));
        let (known, clock) = (Arc::downgrade(&offset), self.clone());
        std::thread::spawn(move || {
            while let Some(offset) = known.upgrade() {
                offset.store(clock.offset(), Ordering::Relaxed);
                drop(offset);
                std::thread::sleep(READ_EVERY);
            }
        });
        Arc::new(Following { offset })
    }
}

/// This time, with a clock that is set by so much.
pub(crate) fn stepped(at: Timestamp, offset: i64) -> Timestamp {
    let span = Span::from_micros(offset.unsigned_abs());
    if offset < 0 { at.minus(span) } else { at.plus(span) }
}

struct Following {
    offset: Arc<AtomicI64>,
}

impl Clock for Following {
    fn now(&self) -> Timestamp {
        stepped(now(), self.offset.load(Ordering::Relaxed))
    }

    /// The machine's: it goes on evenly, however the date is set.
    fn uptime(&self) -> Option<Uptime> {
        WallClock.uptime()
    }
}
