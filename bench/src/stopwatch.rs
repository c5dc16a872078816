//! The machine's clocks, for measurements.
#![allow(clippy::disallowed_methods, reason = "a stopwatch reads the machine's clock")]

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The time since its start: wall time, and processor time of this thread or process.
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu: Duration,
    clock: ClockId,
}

#[derive(Clone, Copy)]
pub(crate) struct Elapsed {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

impl Stopwatch {
    /// Counts the processor time of this thread only, which other load hardly affects.
    pub(crate) fn of_thread() -> Self {
        Self::start(ClockId::ThreadCPUTime)
    }

    /// Counts the processor time of all threads of the process.
    pub(crate) fn of_process() -> Self {
        Self::start(ClockId::ProcessCPUTime)
    }

    fn start(clock: ClockId) -> Self {
        Self { cpu: read(clock), wall: Instant::now(), clock }
    }

    pub(crate) fn elapsed(&self) -> Elapsed {
        Elapsed { wall: self.wall.elapsed(), cpu: read(self.clock).saturating_sub(self.cpu) }
    }
}

/// Wall time only: for frequent measurements.
pub(crate) struct Lap(Instant);

impl Lap {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn time(&self) -> Duration {
        self.0.elapsed()
    }
}

fn read(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}
