//! One limit: an hour in steps of five seconds, and a day in steps of a minute.

use super::count::{pack, unpack};

/// The steps of an hour.
const FINE: usize = 720;

/// The minutes of a day.
const COARSE: usize = 1_440;

/// The steps of a minute.
const STEPS_PER_MINUTE: u64 = 12;

/// How many changes of an amount are kept: operators change limits now and then.
const AMOUNTS_MAX: usize = 32;

/// The bytes of a series, with its name.
pub(super) const SERIES_BYTES: usize = (FINE + COARSE) * size_of::<Point>()
    + AMOUNTS_MAX * size_of::<Amount>()
    + size_of::<Series>()
    + 2 * 128
    + 32;

/// What [`Point::used`] counts in: a full limit is so many.
const FULL: u64 = 60_000;

/// A point at which nothing is known of the usage.
const UNKNOWN: u16 = u16::MAX;

/// How much was used at the end of a step, and what happened in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) used: u16,
    pub(super) granted: u16,
    pub(super) denied: u16,
}

impl Point {
    /// Before this process knew the limit.
    pub(super) const NOTHING_KNOWN: Self = Self { used: UNKNOWN, granted: UNKNOWN, denied: UNKNOWN };

    /// `used` with the capacity, if it is known.
    pub(super) fn new(used: Option<(u64, u64)>, granted: u32, denied: u32) -> Self {
        let used = used.filter(|(_, capacity)| *capacity > 0).map_or(UNKNOWN, |(used, capacity)| {
            let (used, capacity) = (u128::from(used), u128::from(capacity));
            let scaled = (used * u128::from(FULL) + capacity / 2) / capacity;
            u16::try_from(scaled).unwrap_or(UNKNOWN - 1).min(UNKNOWN - 1)
        });
        let count = |count: u32| pack(count.into()).min(UNKNOWN - 1);
        Self { used, granted: count(granted), denied: count(denied) }
    }

    /// The minute that ends with this step.
    fn and(self, next: Self) -> Self {
        let highest = |one, other| match (one, other) {
            (UNKNOWN, known) | (known, UNKNOWN) => known,
            (one, other) => one.max(other),
        };
        let sum = |one, other| match (one, other) {
            (UNKNOWN, known) | (known, UNKNOWN) => known,
            (one, other) => pack(unpack(one).saturating_add(unpack(other))).min(UNKNOWN - 1),
        };
        Self {
            used: highest(self.used, next.used),
            granted: sum(self.granted, next.granted),
            denied: sum(self.denied, next.denied),
        }
    }
}

/// The amount and the capacity of a limit from a step on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) from: u64,
    pub(super) amount: u64,
    pub(super) capacity: u64,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Hour,
    Day,
}

impl Span {
    pub(crate) fn step_millis(self) -> u64 {
        match self {
            Self::Hour => 5_000,
            Self::Day => 60_000,
        }
    }
}

/// What is known of one point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) amount: Option<u64>,
    pub(crate) used: Option<u64>,
    pub(crate) granted: Option<u64>,
    pub(crate) denied: Option<u64>,
}

/// The history of one limit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    /// Rings: the place of a step is its number, modulo the length.
    pub(super) fine: Vec<Point>,
    pub(super) coarse: Vec<Point>,
    /// The newest step.
    pub(super) step: u64,
    pub(super) amounts: Vec<Amount>,
    /// How much the limit is used.
    pub(super) score: f64,
}

impl Series {
    /// Begins at this step.
    pub(super) fn new(step: u64) -> Self {
        Self {
            fine: vec![Point::NOTHING_KNOWN; FINE],
            coarse: vec![Point::NOTHING_KNOWN; COARSE],
            step: step.saturating_sub(1),
            amounts: Vec::new(),
            score: 0.0,
        }
    }

    /// Adds a step. In steps between, the limit was not used.
    pub(super) fn note(&mut self, step: u64, point: Point) {
        let idle = Point::new(self.last_used_is_known().then_some((0, 1)), 0, 0);
        self.fill(step.saturating_sub(1), idle);
        self.push(step, point);
    }

    /// Nothing is known until this step: the process did not run.
    pub(super) fn skip_to(&mut self, step: u64) {
        self.fill(step, Point::NOTHING_KNOWN);
    }

    pub(super) fn note_amount(&mut self, step: u64, amount: u64, capacity: u64) {
        if self.amounts.last().is_some_and(|last| (last.amount, last.capacity) == (amount, capacity)) {
            return;
        }
        if self.amounts.len() >= AMOUNTS_MAX {
            self.amounts.remove(0);
        }
        self.amounts.push(Amount { from: step, amount, capacity });
    }

    fn last_used_is_known(&self) -> bool {
        self.fine[place(self.step, FINE)].used != UNKNOWN
    }

    fn fill(&mut self, until: u64, point: Point) {
        let first = (self.step + 1).max(until.saturating_sub(COARSE as u64 * STEPS_PER_MINUTE));
        for step in first..=until {
            self.push(step, point);
        }
    }

    fn push(&mut self, step: u64, point: Point) {
        if step <= self.step {
            return;
        }
        self.fine[place(step, FINE)] = point;
        let minute = &mut self.coarse[place(step / STEPS_PER_MINUTE, COARSE)];
        // A new minute overwrites that of a day ago.
        let is_new = step / STEPS_PER_MINUTE != self.step / STEPS_PER_MINUTE;
        *minute = if is_new { point } else { minute.and(point) };
        self.step = step;
    }

    /// What is known until a step, the oldest first, in the number of the oldest point and the points.
    pub(crate) fn read(&self, span: Span, until: u64) -> (u64, Vec<Known>) {
        let (ring, length, per) = match span {
            Span::Hour => (&self.fine, FINE, 1),
            Span::Day => (&self.coarse, COARSE, STEPS_PER_MINUTE),
        };
        let (newest, until) = (self.step / per, until / per);
        let oldest = (until + 1).saturating_sub(length as u64);
        let point = |number: u64| match number {
            // Not used since.
            number if number > newest => Point::new(None, 0, 0),
            number if newest - number >= length as u64 => Point::NOTHING_KNOWN,
            number => ring[place(number, length)],
        };
        let known = |number: u64| self.known(point(number), (number + 1) * per - 1);
        (oldest, (oldest..=until).map(known).collect())
    }

    fn known(&self, point: Point, step: u64) -> Known {
        let amount = self.amounts.iter().rev().find(|amount| amount.from <= step).or(self.amounts.first());
        let capacity = u128::from(amount.map_or(0, |amount| amount.capacity));
        let used = |used: u16| {
            let used = (u128::from(used) * capacity + u128::from(FULL) / 2) / u128::from(FULL);
            u64::try_from(used).unwrap_or(u64::MAX)
        };
        let count = |packed: u16| (packed != UNKNOWN).then(|| unpack(packed));
        Known {
            amount: amount.map(|amount| amount.amount),
            used: (point.used != UNKNOWN).then(|| used(point.used)),
            granted: count(point.granted),
            denied: count(point.denied),
        }
    }
}

fn place(number: u64, length: usize) -> usize {
    usize::try_from(number % length as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(used: u64, denied: u32) -> Point {
        Point::new(Some((used, 200)), 1, denied)
    }

    #[test]
    fn an_hour_has_every_step_and_a_day_the_highest_of_each_minute() {
        let mut series = Series::new(120_000);
        series.note_amount(120_000, 200, 200);
        for step in 0..24 {
            series.note(120_000 + step, point(step, 1));
        }
        let (oldest, hour) = series.read(Span::Hour, 120_023);
        assert_eq!((oldest, hour.len()), (120_023 + 1 - 720, 720));
        assert_eq!(hour[719], Known { amount: Some(200), used: Some(23), granted: Some(1), denied: Some(1) });
        assert_eq!(hour[0].used, None, "before it was known");
        let (_, day) = series.read(Span::Day, 120_023);
        assert_eq!(
            day[1_438..].iter().map(|known| (known.used, known.denied)).collect::<Vec<_>>(),
            [(Some(11), Some(12)), (Some(23), Some(12))]
        );
    }

    #[test]
    fn idle_steps_are_zero_and_those_of_a_stopped_process_unknown() {
        let mut series = Series::new(120_100);
        series.note_amount(120_100, 200, 200);
        series.note(120_100, point(7, 0));
        series.note(120_103, point(9, 0));
        series.skip_to(120_106);
        series.note(120_107, point(3, 0));
        let (_, hour) = series.read(Span::Hour, 120_108);
        let used: Vec<_> = hour[711..].iter().map(|known| known.used).collect();
        assert_eq!(used, [Some(7), Some(0), Some(0), Some(9), None, None, None, Some(3), None]);
        let granted: Vec<_> = hour[711..].iter().map(|known| known.granted).collect();
        assert_eq!(granted, [Some(1), Some(0), Some(0), Some(1), None, None, None, Some(1), Some(0)]);
    }

    #[test]
    fn a_changed_amount_moves_the_line_and_not_the_past() {
        let mut series = Series::new(120_100);
        series.note_amount(120_100, 200, 200);
        series.note(120_100, point(100, 0));
        series.note_amount(120_101, 50, 50);
        series.note(120_101, Point::new(Some((25, 50)), 0, 0));
        let (_, hour) = series.read(Span::Hour, 120_101);
        assert_eq!(hour[719], Known { amount: Some(50), used: Some(25), granted: Some(0), denied: Some(0) });
    }
}
