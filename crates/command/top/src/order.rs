//! In which order rows are shown: what callers wait for, what is stopped or held, then the nearest to full, as on the page.

use std::cmp::Reverse;
use std::collections::HashMap;

use tollway_core::{Span, Timestamp};
use tollway_dashboard::snapshot::{Mode, Row};

/// Rows keep their places for so long, so that they do not jump under a reader's eyes.
const STAYS: Span = Span::from_secs(2);

/// The order that was chosen last.
#[derive(Default)]
pub(crate) struct Order {
    places: HashMap<String, usize>,
    chosen_at: Option<Timestamp>,
}

impl Order {
    /// Sorts the rows, by a new order if the last one is old enough. New rows come last until then.
    pub(crate) fn sort(&mut self, rows: &mut [Row], now: Timestamp) {
        let stays = self.chosen_at.is_some_and(|chosen_at| now.since(chosen_at) < STAYS);
        let place = |row: &Row| self.places.get(&row.id).copied().unwrap_or(usize::MAX);
        if stays {
            rows.sort_by_key(|row| (place(row), Reverse(rank(row))));
        } else {
            let key = |row: &Row| (Reverse(rank(row)), Reverse(row.waiting), place(row));
            rows.sort_by(|one, other| key(one).cmp(&key(other)).then_with(|| one.id.cmp(&other.id)));
            self.chosen_at = Some(now);
        }
        self.places = rows.iter().enumerate().map(|(place, row)| (row.id.clone(), place)).collect();
    }
}

/// How full it is, in steps of 5 %, so that small changes do not reorder rows: `limitTable` of the page does the same.
fn rank(row: &Row) -> u64 {
    const STEPS: u64 = 20;
    if row.waiting > 0 {
        return 3 * STEPS;
    }
    if row.modes.contains(&Mode::Stopped) || row.modes.contains(&Mode::Held) {
        return 2 * STEPS;
    }
    let capacity = [row.capacity, row.amount, 1].into_iter().find(|capacity| *capacity > 0).unwrap_or(1);
    let half_steps = row.used.unwrap_or(0).saturating_mul(2 * STEPS) / capacity;
    half_steps.div_ceil(2)
}

/// How full it is, in percent; above 100 if calls turned out to cost more than was taken.
pub(crate) fn percent(row: &Row) -> u64 {
    let used = row.used.unwrap_or(0);
    match row.capacity {
        0 => u64::from(used > 0) * 100,
        capacity => used.saturating_mul(100) / capacity,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, used: u64) -> Row {
        Row { id: id.to_owned(), capacity: 100, used: Some(used), ..Row::default() }
    }

    fn ids(rows: &[Row]) -> String {
        rows.iter().map(|row| row.id.as_str()).collect()
    }

    #[test]
    fn what_is_waited_for_is_first_then_what_is_stopped_then_the_fullest() {
        let stopped = Row { modes: vec![Mode::Stopped], ..row("s", 0) };
        let waited_for = Row { waiting: 3, ..row("w", 90) };
        let shadow = Row { modes: vec![Mode::Shadow], ..row("h", 120) };
        let mut rows = [row("b", 10), row("a", 11), stopped, shadow, waited_for, row("c", 90)];
        Order::default().sort(&mut rows, Timestamp::EPOCH);
        assert_eq!(ids(&rows), "wshcab", "a and b are within 5 %");
    }

    #[test]
    fn rows_do_not_jump_for_two_seconds() {
        let mut order = Order::default();
        let at = |millis| Timestamp::from_millis(millis);
        order.sort(&mut [row("a", 90), row("b", 10)], at(1_000));
        let mut rows = [row("c", 99), row("b", 85), row("a", 20)];
        order.sort(&mut rows, at(2_900));
        assert_eq!(ids(&rows), "abc", "a new row comes last");
        order.sort(&mut rows, at(3_000));
        assert_eq!(ids(&rows), "cba");
        // Equally full rows stay where they are.
        let mut rows = [row("a", 99), row("b", 99), row("c", 98)];
        order.sort(&mut rows, at(9_000));
        assert_eq!(ids(&rows), "cba");
    }
}
