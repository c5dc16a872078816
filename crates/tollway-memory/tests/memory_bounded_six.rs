//! Memory is bounded for lines of several limits, too: T15. A process of its own, because it measures memory.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "it/memory_support.rs"]
mod memory_support;

use memory_support::{resident, store_of, stranger, take};
use tollway_core::{Policy, Span};
use tollway_memory::OVERFLOW_LINES;

/// What a line of two to six limits takes at the most, as the store's documentation says.
const BYTES_PER_LINE: u64 = 400;

const LINES: usize = 1_000_000;

/// T15: the bound that is said of lines of two to six limits, with a line for all that fit and some for whom there is no room.
#[test]
fn a_flood_of_subjects_with_six_limits_each_stays_in_its_bound() {
    let (store, clock) = store_of(LINES);
    let limits = ["2 / second", "2 / minute", "1 / hour", "2 / day", "2 / week", "refill: 2 / hour bucket"];
    let policy = Policy::new("api", limits).unwrap();
    let before = resident();
    let mut peak = before;
    for number in 0..LINES / 10 * 11 {
        take(&store, &policy, &stranger(number));
        clock.advance(Span::from_micros(100));
        if number % 1_000 == 0 {
            peak = peak.max(resident());
        }
    }
    let stats = store.stats();
    assert!(stats.lines > LINES * 9 / 10 && stats.overflow_lines > 0, "{stats:?}");
    let bound = (stats.capacity + OVERFLOW_LINES) as u64 * BYTES_PER_LINE;
    let grown = peak - before;
    assert!(grown < bound, "{} bytes a line: {grown} for {stats:?}", grown / stats.lines as u64);
    // Packed, a line of six is in an entry of 128 bytes: a test that measured nothing would not notice.
    assert!(grown > stats.lines as u64 * 100, "{grown} bytes cannot hold {stats:?}");
}
