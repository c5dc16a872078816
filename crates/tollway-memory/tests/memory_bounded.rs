//! Memory is bounded, and a flood of subjects resets nobody: T15, M10.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "it/memory_support.rs"]
mod memory_support;

use memory_support::{START, charge, peek, policy, resident, store_of, stranger, subject, take};
use tollway_core::{Action, Operation, PermitId, Policy, Span, Store, Subject, Terms};
use tollway_memory::{MemoryStore, OVERFLOW_LINES, SHARDS};
use tollway_testkit::{ManualClock, wait_for};

/// What a line takes at the most, as the store's documentation says.
const BYTES_PER_LINE: u64 = 200;

/// Ten million subjects on a million lines.
const LINES: usize = 1_000_000;
const SUBJECTS: usize = 10 * LINES;

/// T15, M10: LRU eviction would forget the victim; a store without a bound would grow for ever.
#[test]
fn m10_a_flood_of_subjects_neither_grows_memory_nor_resets_a_denied_one() {
    let (store, clock) = store_of(LINES);
    let policy = policy("api", "1 / hour");
    let victim = subject("victim");
    assert!(take(&store, &policy, &victim));
    let before = resident();
    let mut peak = before;
    let mut served = 0;
    for number in 0..SUBJECTS {
        served += usize::from(take(&store, &policy, &stranger(number)));
        clock.advance(Span::from_micros(100));
        if number % 1_000 == 0 {
            assert!(!take(&store, &policy, &victim), "the victim was reset by subject {number}");
            peak = peak.max(resident());
        }
    }
    let stats = store.stats();
    assert_eq!(stats.violations, 0);
    assert!(stats.lines <= stats.capacity && stats.lines > LINES * 9 / 10, "{stats:?}");
    assert_eq!(stats.overflow_lines, OVERFLOW_LINES, "the policy's shared lines, and no more");
    assert!(stats.overflowed as usize > SUBJECTS / 2, "{stats:?}");
    assert_eq!(served, stats.lines - 1 + OVERFLOW_LINES, "each line, own or shared, granted its one request");

    let bound = (stats.capacity + OVERFLOW_LINES) as u64 * BYTES_PER_LINE;
    let grown = peak - before;
    assert!(grown < bound, "{} bytes a line: {grown} for {stats:?}", grown / stats.lines as u64);

    empties_itself_again(&store, &clock, &policy, &victim);
    let kept = resident().saturating_sub(before);
    assert!(kept < grown / 3 * 2, "{kept} of {grown} bytes are still held by {:?}", store.stats());
}

/// Once all of them have expired, those who come later find room, and clear up as they come.
fn empties_itself_again(store: &MemoryStore, clock: &ManualClock, policy: &Policy, victim: &Subject) {
    clock.set(START.plus(Span::from_hours(1)));
    assert!(take(store, policy, victim), "its hour is over");
    let passing = Policy::new("passing", ["1 / second"]).unwrap();
    // A line looks at four places when it comes: so many takes have looked at every place twice.
    for number in 0..2 * LINES {
        assert!(take(store, &passing, &stranger(number)), "there is room again");
        clock.advance(Span::from_micros(500));
    }
    let stats = store.stats();
    assert!(stats.lines < LINES / 4, "{stats:?}");
    assert!(!take(store, policy, victim), "it has had its request of this hour");
}

/// Fills the store with lines that live for a second; everybody after them has to share.
fn fill(store: &MemoryStore) {
    let fillers = policy("fillers", "1 / second");
    for number in 0.. {
        let stats = store.stats();
        if stats.lines == stats.capacity {
            return;
        }
        take(store, &fillers, &stranger(number));
    }
}

#[test]
fn a_new_subject_is_served_when_the_store_is_full_of_live_ones() {
    let (store, _clock) = store_of(SHARDS);
    fill(&store);
    let before = store.stats();
    let policy = policy("api", "2 / minute");
    assert!(take(&store, &policy, &subject("new")));
    assert!(take(&store, &policy, &subject("new")));
    assert!(!take(&store, &policy, &subject("new")), "by the same limit as everybody");
    let after = store.stats();
    assert_eq!((after.lines, after.overflow_lines), (before.lines, before.overflow_lines + 1));
    assert_eq!(after.overflowed, before.overflowed + 3);
}

/// Were it given a line of its own when room comes, it would be granted its limit twice.
#[test]
fn a_subject_stays_on_its_shared_line_until_that_is_as_good_as_new() {
    let (store, clock) = store_of(SHARDS);
    fill(&store);
    let (policy, late) = (policy("api", "3 / minute"), subject("late"));
    assert!(take(&store, &policy, &late));
    clock.advance(Span::from_secs(10));
    // The fillers are gone or may go: there is room for all of these.
    for number in 0..10 * SHARDS {
        take(&store, &policy, &stranger(number));
    }
    let granted = (0..5).filter(|_| take(&store, &policy, &late)).count();
    assert!(granted <= 2, "{} of 3 in one minute", granted + 1);
    assert!(peek(&store, &policy, &late).used == 3);

    clock.set(START.plus(Span::from_mins(1)));
    let granted = (0..5).filter(|_| take(&store, &policy, &late)).count();
    assert_eq!(granted, 3, "a new minute, a line of its own");
}

/// I1 also for those who share: what one of them takes the others have no more.
#[test]
fn those_who_share_a_line_share_one_limit() {
    let (store, _clock) = store_of(SHARDS);
    fill(&store);
    let of_fillers = store.stats().overflow_lines;
    let policy = policy("api", "3 / minute");
    let granted = (0..20_000).filter(|number| take(&store, &policy, &stranger(*number))).count();
    assert_eq!(store.stats().overflow_lines - of_fillers, OVERFLOW_LINES);
    assert_eq!(granted, 3 * OVERFLOW_LINES);
    assert_eq!(store.stats().violations, 0);
}

/// I1, I3: a line cannot be taken from twice at once, so a take over two subjects that happen to share one is refused.
/// Counted once it would be one too many granted.
#[test]
fn a_take_over_two_subjects_of_one_shared_line_is_refused_and_takes_nothing() {
    let (store, _clock) = store_of(SHARDS);
    fill(&store);
    let policy = policy("api", "10 / minute");
    let one = subject("one");
    assert!(take(&store, &policy, &one));
    let shares = |other: &Subject| peek(&store, &policy, other).used == 1;
    let other = (0..).map(stranger).find(shares).unwrap();
    let terms = Terms::now(PermitId(1));
    let charges = [charge(&policy, &one), charge(&policy, &other)];
    let error = wait_for(
        store.apply(&[Operation { charges: charges.into_iter().collect(), action: Action::Take(terms) }]),
    )
    .unwrap_err();
    assert!(error.message.contains("share a line"), "{error}");
    assert_eq!(peek(&store, &policy, &one).used, 1);
}
