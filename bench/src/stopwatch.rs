//! The machine's clocks, as far as measuring needs them.
#![allow(clippy::disallowed_methods, reason = "a stopwatch reads the machine's clock")]

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Time since it was started: on the wall, and of the processor in this thread.
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
    /// Counts the processor time of this thread only: what others do on the machine hardly shows in it.
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

/// Time on the wall since it was started, and nothing else: for what is measured very often.
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
