//! How much of a limit was asked for in its running window: what was granted, and what was denied.

use tollway_core::{Limit, Timestamp};

use crate::LimitUsage;

/// The denials of a limit's running window, as far as they were seen: a window begins with the first reading after the end
/// of the one before.
#[derive(Clone, Copy, Default)]
pub(super) struct DenialWindow {
    ends_at: Timestamp,
    /// The units that were denied until it began.
    before: u64,
    /// The same until the last reading; none before the first.
    last: Option<u64>,
}

impl DenialWindow {
    /// What was denied in the running window; `denied` are all units until now.
    fn denied(&mut self, denied: u64, now: Timestamp, ends_at: Timestamp) -> u64 {
        if now >= self.ends_at {
            // When the units were denied that the first reading finds is not known.
            self.before = self.last.unwrap_or(denied);
            self.ends_at = ends_at;
        }
        self.last = Some(denied);
        denied.wrapping_sub(self.before)
    }

    /// (granted + denied) / amount, in millionths. None for learned rates, which have no amount.
    pub(super) fn ratio(&mut self, limit: &Limit, usage: &LimitUsage, denied: u64) -> Option<u64> {
        if limit.is_adaptive() || usage.capacity == 0 {
            return None;
        }
        let now = usage.as_of;
        let denied = match end_of_window(limit, usage) {
            Some(ends_at) => self.denied(denied, now, ends_at),
            // A caller that waits for a slot asks again and again.
            None => 0,
        };
        let asked = u128::from(usage.used).saturating_add(u128::from(denied)).saturating_mul(1_000_000);
        Some(u64::try_from(asked / u128::from(usage.capacity)).unwrap_or(u64::MAX))
    }
}

/// When the window that runs now ends; of a limit without windows, a period after now. None for slots.
fn end_of_window(limit: &Limit, usage: &LimitUsage) -> Option<Timestamp> {
    if limit.is_window() {
        return Some(usage.resets_at);
    }
    limit.period().map(|period| usage.as_of.plus(period))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denials_belong_to_the_window_in_which_they_were_seen() {
        let at = Timestamp::from_secs;
        let mut window = DenialWindow::default();
        assert_eq!(window.denied(70, at(10), at(60)), 0, "whenever they were");
        assert_eq!(window.denied(75, at(20), at(60)), 5);
        assert_eq!(window.denied(80, at(59), at(60)), 10);
        assert_eq!(window.denied(83, at(61), at(120)), 3);
        assert_eq!(window.denied(83, at(121), at(180)), 0);
    }
}
