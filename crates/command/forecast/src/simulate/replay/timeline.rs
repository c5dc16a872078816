//! Grants and denials over time, in a bounded number of bars: as the range grows, bars become wider.

use std::collections::VecDeque;

use tollway_core::{Span, Timestamp};

/// The most bars: more than a chart has pixels for.
const BARS_MAX: usize = 1_024;

const MILLI: u64 = 1_000;
const SECOND: u64 = 1_000 * MILLI;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How wide bars may be, in microseconds. Each divides the next, so that bars can be merged; the widest cover every
/// timestamp.
const WIDTHS: [u64; 18] = [
    MILLI,
    5 * MILLI,
    20 * MILLI,
    100 * MILLI,
    500 * MILLI,
    SECOND,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    HOUR,
    6 * HOUR,
    DAY,
    7 * DAY,
    28 * DAY,
    364 * DAY,
];

/// The calls in one span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bar {
    /// Granted calls.
    pub granted: u64,
    /// Denied calls.
    pub denied: u64,
}

/// Bars without gaps, from the first to the last.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    width: usize,
    /// The first bar's time, in widths since 1970.
    first: u64,
    bars: VecDeque<Bar>,
}

impl Timeline {
    pub(crate) fn granted(&mut self, at: Timestamp) {
        self.bar_at(at).granted += 1;
    }

    pub(crate) fn denied(&mut self, at: Timestamp) {
        self.bar_at(at).denied += 1;
    }

    /// How wide a bar is.
    pub fn width(&self) -> Span {
        Span::from_micros(WIDTHS[self.width])
    }

    /// When the bar of this index begins.
    pub fn start_of(&self, index: usize) -> Timestamp {
        Timestamp::from_micros((self.first + index as u64) * WIDTHS[self.width])
    }

    /// The bars, the earliest first.
    pub fn bars(&self) -> impl ExactSizeIterator<Item = Bar> + '_ {
        self.bars.iter().copied()
    }

    /// The same with bars at least so wide, and so few of them, as far as widths go.
    pub fn coarser(&self, narrowest: Span, most: usize) -> Self {
        let mut coarse = self.clone();
        while coarse.width + 1 < WIDTHS.len() && (coarse.width() < narrowest || coarse.bars.len() > most) {
            coarse.widen();
        }
        coarse
    }

    /// The same, made to reach from the one bar to the other at least: several timelines side by side show one range.
    pub fn covering(mut self, from: Timestamp, to: Timestamp) -> Self {
        self.bar_at(from);
        self.bar_at(to);
        self
    }

    fn bar_at(&mut self, at: Timestamp) -> &mut Bar {
        loop {
            let place = at.as_micros() / WIDTHS[self.width];
            if self.bars.is_empty() {
                self.first = place;
            }
            let first = self.first.min(place);
            let last = (self.first + self.bars.len() as u64).max(place + 1);
            if last - first > BARS_MAX as u64 && self.width + 1 < WIDTHS.len() {
                self.widen();
                continue;
            }
            while self.first > first {
                self.bars.push_front(Bar::default());
                self.first -= 1;
            }
            self.bars.resize((last - first) as usize, Bar::default());
            return &mut self.bars[(place - first) as usize];
        }
    }

    /// Merges neighbours.
    fn widen(&mut self) {
        let factor = WIDTHS[self.width + 1] / WIDTHS[self.width];
        let (first, narrow) = (self.first, std::mem::take(&mut self.bars));
        self.width += 1;
        self.first = first / factor;
        for (place, bar) in (first..).zip(narrow) {
            let index = (place / factor - self.first) as usize;
            if index == self.bars.len() {
                self.bars.push_back(Bar::default());
            }
            self.bars[index].granted += bar.granted;
            self.bars[index].denied += bar.denied;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(timeline: &Timeline) -> (u64, u64) {
        timeline.bars().fold((0, 0), |(granted, denied), bar| (granted + bar.granted, denied + bar.denied))
    }

    #[test]
    fn bars_widen_as_the_range_grows_and_lose_no_call() {
        let mut timeline = Timeline::default();
        timeline.granted(Timestamp::from_secs(1_000));
        timeline.denied(Timestamp::from_secs(1_001));
        assert_eq!((timeline.width(), timeline.bars().len()), (Span::from_millis(1), 1_001));
        for second in 0..10_000 {
            timeline.granted(Timestamp::from_secs(second));
            assert!(timeline.bars().len() <= BARS_MAX);
        }
        assert_eq!((timeline.width(), timeline.bars().len()), (Span::from_secs(10), 1_000));
        assert_eq!(totals(&timeline), (10_001, 1));
        assert_eq!(timeline.bars().nth(100), Some(Bar { granted: 11, denied: 1 }), "1000 s to 1010 s");
        assert_eq!(timeline.start_of(100), Timestamp::from_secs(1_000));
    }

    #[test]
    fn every_timestamp_fits() {
        let mut timeline = Timeline::default();
        timeline.granted(Timestamp::MAX);
        timeline.granted(Timestamp::EPOCH);
        assert!(timeline.bars().len() <= BARS_MAX);
        assert_eq!(totals(&timeline), (2, 0));
    }

    #[test]
    fn coarser_bars_count_the_same() {
        let mut timeline = Timeline::default();
        (0..600).for_each(|second| timeline.granted(Timestamp::from_secs(second)));
        let coarse = timeline.coarser(Span::from_mins(1), 200);
        assert_eq!(coarse.bars().map(|bar| bar.granted).collect::<Vec<_>>(), [60; 10]);
    }
}
