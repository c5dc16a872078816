//! What a sliding limit grants to a caller that always retries as early as possible.
//!
//! The first window grants the whole amount at once, later windows as the window before fades. A window's last call often
//! fits only when the next window has begun, so a window often grants one call fewer than its amount.

use tollway_core::{Span, Timestamp};

use crate::plan::rate::Rate;
use crate::plan::windows::after;

/// Each window's count depends on the count before it alone, so counts repeat after a few windows: they settle on one
/// number, or alternate between two.
const WINDOWS_MAX: usize = 64;

/// A sliding limit and what one call takes from it.
#[derive(Clone, Debug)]
pub(crate) struct Sliding {
    pub(crate) amount: u64,
    pub(crate) charge: u64,
    pub(crate) period: Span,
}

/// The windows from the first on. Those from index `repeats` on form a cycle.
struct Course {
    windows: Vec<Window>,
    repeats: usize,
}

/// How many calls a window grants, and the one before it.
struct Window {
    before: u128,
    calls: u128,
}

impl Sliding {
    /// In the long run.
    pub(crate) fn rate(&self) -> Rate {
        let course = self.course();
        let windows = course.cycle().len() as u128;
        Rate::new(course.calls_of_cycle(), windows * u128::from(self.period.as_micros()))
    }

    /// When the call with this number, from 0 on, is granted; none if that is after [`Timestamp::MAX`].
    pub(crate) fn grant(&self, number: u128, start: Timestamp) -> Option<Timestamp> {
        let course = self.course();
        let (index, window, place) = course.find(number)?;
        let into = start.as_micros().checked_rem(self.period.as_micros()).unwrap_or(0);
        let begins = after(start.minus(Span::from_micros(into)), self.period, index)?;
        let at = begins.plus(self.offset(window.before, place.checked_add(1)?));
        (at < Timestamp::MAX).then_some(at.max(start))
    }

    /// Window by window until a count repeats. The window before the first was empty.
    fn course(&self) -> Course {
        let mut windows: Vec<Window> = Vec::new();
        let mut before = 0;
        while windows.len() < WINDOWS_MAX {
            if let Some(repeats) = windows.iter().position(|window| window.before == before) {
                return Course { windows, repeats };
            }
            let calls = self.calls_after(before);
            windows.push(Window { before, calls });
            before = calls;
        }
        Course { windows, repeats: 0 }
    }

    /// How many calls a window grants before it ends if the one before granted this many.
    fn calls_after(&self, before: u128) -> u128 {
        let (amount, charge) = (u128::from(self.amount), u128::from(self.charge.max(1)));
        let previous = before * charge;
        let at_its_start = amount.saturating_sub(previous);
        // A microsecond before its end this much of the window before still counts.
        let still_counts = previous.div_ceil(u128::from(self.period.as_micros().max(1)));
        amount.saturating_sub(still_counts).max(at_its_start) / charge
    }

    /// How far into its window the call with this number, from 1 on, is granted.
    fn offset(&self, before: u128, number: u128) -> Span {
        let (amount, charge) = (u128::from(self.amount), u128::from(self.charge));
        let (previous, period) = (before * charge, u128::from(self.period.as_micros()));
        let room = amount.saturating_sub(number.saturating_mul(charge));
        if previous <= room {
            return Span::ZERO;
        }
        Span::from_micros(u64::try_from(period - room * period / previous).unwrap_or(u64::MAX))
    }
}

impl Course {
    fn cycle(&self) -> &[Window] {
        self.windows.get(self.repeats..).unwrap_or_default()
    }

    fn calls_of_cycle(&self) -> u128 {
        self.cycle().iter().map(|window| window.calls).sum()
    }

    /// The window that grants this call, its index, and the call's place in it.
    fn find(&self, number: u128) -> Option<(u128, &Window, u128)> {
        let in_beginning: u128 = self.windows.iter().take(self.repeats).map(|window| window.calls).sum();
        let rounds = number.saturating_sub(in_beginning).checked_div(self.calls_of_cycle())?;
        let skipped = rounds.checked_mul(self.cycle().len() as u128)?;
        let mut left = number - rounds * self.calls_of_cycle();
        for (index, window) in self.windows.iter().enumerate() {
            if left < window.calls {
                return Some((skipped.checked_add(index as u128)?, window, left));
            }
            left -= window.calls;
        }
        None
    }
}
