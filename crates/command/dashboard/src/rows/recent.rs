//! Five minutes of one counter or gauge, in steps of five seconds.

use tollway::Span;

/// The length of a step.
pub(crate) const STEP: Span = Span::from_secs(5);

/// The steps of five minutes.
pub(crate) const STEPS: usize = 60;

/// The steps over which a rate is measured.
const RATE_STEPS: usize = 2;

/// The bytes of a limit's five minutes: what it denied, and how full it was.
pub(crate) const RECENT_BYTES: usize = 4 * STEPS + STEPS;

/// The last steps, in a ring.
#[derive(Clone, Debug)]
pub(crate) struct Recent<T> {
    steps: [T; STEPS],
    newest: usize,
}

impl<T: Copy> Recent<T> {
    pub(crate) fn of(value: T) -> Self {
        Self { steps: [value; STEPS], newest: 0 }
    }

    pub(crate) fn push(&mut self, value: T) {
        self.newest = (self.newest + 1) % STEPS;
        self.steps[self.newest] = value;
    }

    /// The oldest first.
    pub(crate) fn values(&self) -> impl Iterator<Item = T> + '_ {
        (1..=STEPS).map(|step| self.steps[(self.newest + step) % STEPS])
    }
}

impl Recent<u32> {
    /// A second, over the last steps.
    pub(crate) fn per_second(&self) -> f64 {
        let last = self.values().skip(STEPS - RATE_STEPS).map(f64::from).sum::<f64>();
        let seconds = STEP.as_micros() as f64 / 1e6 * RATE_STEPS as f64;
        (last / seconds * 10.0).round() / 10.0
    }

    pub(crate) fn sum(&self) -> u64 {
        self.steps.iter().map(|step| u64::from(*step)).sum()
    }
}

/// A counter of the limiter, as its growth.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    last: u64,
    step: u64,
}

impl Growth {
    /// Returns how much the counter grew since it was last read.
    pub(crate) fn read(&mut self, count: u64) -> u64 {
        let grown = count.wrapping_sub(self.last);
        self.last = count;
        self.step = self.step.saturating_add(grown);
        grown
    }

    /// In the step that runs.
    pub(crate) fn in_step(self) -> u64 {
        self.step
    }

    /// Ends the step, and returns how much it grew in it.
    pub(crate) fn end_step(&mut self) -> u32 {
        u32::try_from(std::mem::take(&mut self.step)).unwrap_or(u32::MAX)
    }
}
