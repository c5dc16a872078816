//! How much of the quota was used in windows without an outage.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use tollway_core::{Span, Timestamp};

use super::fault::Fault;
use super::{QUOTA, SHARE_MIN, WINDOW};

/// From when to when something was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) fault: Fault,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// Whether the store or the engine did not answer meanwhile.
    pub(super) outage: bool,
}

/// The use of the windows without an outage.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) windows: u64,
    pub(super) calls: u64,
    /// Windows that were used less than they should be: calls, and how long before their start the last trouble ended.
    short: Vec<(u64, Option<(Fault, Span)>)>,
}

impl Used {
    /// The calls of the windows that lie between `from` and `to`, and in no outage.
    pub(super) fn read(log: &Path, from: Timestamp, to: Timestamp, troubles: &[Trouble]) -> Self {
        let log = std::fs::read_to_string(log).unwrap_or_default();
        let calls = log.lines().filter_map(|line| line.split(' ').next()?.parse().ok());
        Self::of(calls.map(Timestamp::from_micros), from, to, troubles)
    }

    fn of(
        calls: impl Iterator<Item = Timestamp>,
        from: Timestamp,
        to: Timestamp,
        troubles: &[Trouble],
    ) -> Self {
        let mut by_window: BTreeMap<u64, u64> = BTreeMap::new();
        for at in calls {
            *by_window.entry(at.as_micros() / WINDOW.as_micros()).or_default() += 1;
        }
        let first = from.as_micros().div_ceil(WINDOW.as_micros());
        let last = to.as_micros() / WINDOW.as_micros();
        let mut used = Self::default();
        for window in first..last {
            let start = Timestamp::from_micros(window * WINDOW.as_micros());
            let end = start.plus(WINDOW);
            if troubles.iter().any(|trouble| trouble.outage && trouble.to >= start && trouble.from < end) {
                continue;
            }
            let calls = by_window.get(&window).copied().unwrap_or(0).min(QUOTA);
            used.windows += 1;
            used.calls += calls;
            if calls * 100 < QUOTA * SHARE_MIN {
                let before = troubles.iter().rfind(|trouble| trouble.from < end);
                used.short.push((calls, before.map(|trouble| (trouble.fault, start.since(trouble.to)))));
            }
        }
        used
    }

    /// In percent, rounded down.
    pub(super) fn share(&self) -> u64 {
        (self.calls * 100).checked_div(self.windows * QUOTA).unwrap_or(0)
    }
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { windows, calls, short } = self;
        let quota = windows * QUOTA;
        let tenths = (calls * 1_000).checked_div(quota).unwrap_or(0);
        let (percent, tenth) = (tenths / 10, tenths % 10);
        write!(
            f,
            "{percent}.{tenth} % used of {windows} windows without an outage: {calls} of {quota} calls"
        )?;
        for (calls, before) in short {
            write!(f, "\n    a window with {calls} calls")?;
            if let Some((fault, since)) = before {
                write!(f, ", {} ms after {fault:?}", since.as_micros() / 1_000)?;
            }
        }
        Ok(())
    }
}

/// B13: a window counts if the outage before it ended in an earlier one, and calls above the quota fill no other window.
#[test]
fn windows_with_an_outage_are_left_out() {
    let at = |tenths: u64| Timestamp::from_micros(tenths * WINDOW.as_micros() / 10);
    let calls = |from: u64, count: u64| (0..count).map(move |_| at(from));
    // Windows 1 to 5: full, too many, half used in an outage, half used, and the one that has not ended.
    let all = calls(11, QUOTA)
        .chain(calls(21, QUOTA + 5))
        .chain(calls(31, 50))
        .chain(calls(45, 50))
        .chain(calls(51, 9));
    let outage = Trouble { fault: Fault::ServerKilled, from: at(32), to: at(39), outage: true };
    let kill = Trouble { fault: Fault::HandlerKilled, from: at(21), to: at(22), outage: false };
    let used = Used::of(all, at(9), at(55), &[kill, outage]);
    let short = vec![(50, Some((Fault::ServerKilled, at(1).since(Timestamp::EPOCH))))];
    assert_eq!(used, Used { windows: 3, calls: 2 * QUOTA + 50, short });
    assert_eq!(used.share(), 83);
    assert_eq!(Used::default().share(), 0);
}
