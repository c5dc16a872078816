//! Memory is bounded for accounts of any number of limits: T15. A separate test program, because it measures memory.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "it/memory_support.rs"]
mod memory_support;

use memory_support::{resident, store_of, stranger, take};
use tollway_core::{Policy, Span};
use tollway_memory::OVERFLOW_ACCOUNTS;

/// The most bytes of an account with seven to sixteen limits, as documented at the store.
const BYTES_PER_ACCOUNT: u64 = 800;

const ACCOUNTS: usize = 250_000;

/// T15: the documented bound for accounts with seven to sixteen limits, in a full store with shared accounts.
#[test]
fn a_flood_of_subjects_with_sixteen_limits_each_stays_in_its_bound() {
    let (store, clock) = store_of(ACCOUNTS);
    let limits: Vec<String> = (0..16).map(|number| format!("l{number}: {} / day", number + 1)).collect();
    let policy = Policy::new("api", limits.iter().map(String::as_str)).unwrap();
    let before = resident();
    let mut peak = before;
    for number in 0..ACCOUNTS / 10 * 11 {
        take(&store, &policy, &stranger(number));
        clock.advance(Span::from_micros(100));
        if number % 1_000 == 0 {
            peak = peak.max(resident());
        }
    }
    let stats = store.stats();
    assert!(stats.accounts > ACCOUNTS * 9 / 10 && stats.overflow_accounts > 0, "{stats:?}");
    let bound = (stats.capacity + OVERFLOW_ACCOUNTS) as u64 * BYTES_PER_ACCOUNT;
    let grown = peak - before;
    assert!(grown < bound, "{} bytes an account: {grown} for {stats:?}", grown / stats.accounts as u64);
    // A packed account of sixteen limits takes 320 bytes: fails if the measurement is wrong.
    assert!(grown > stats.accounts as u64 * 250, "{grown} bytes cannot hold {stats:?}");
}
