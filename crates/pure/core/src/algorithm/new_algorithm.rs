//! A test that adds an algorithm: its rules are all that it needs to be decided. The same laws hold for all others.

use super::{Advance, AlgorithmRules, Correction, Debited, Room, State, Window, with_rules};
use crate::{Limit, PermitId, Span, Timestamp};

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);
const MICROSECOND: Span = Span::from_micros(1);

/// A trial: the amount is granted until this time, and nothing afterwards.
#[derive(Clone, Copy)]
struct TrialRules {
    until: Timestamp,
}

impl AlgorithmRules for TrialRules {
    type State = Window;

    fn word(self) -> &'static str {
        "trial"
    }

    fn period(self) -> Option<Span> {
        None
    }

    fn longest_memory(self, _: &Limit) -> Span {
        self.until.since(Timestamp::EPOCH)
    }

    fn books_ahead(self) -> bool {
        true
    }

    fn fresh(self) -> State {
        State::Window(Window::default())
    }

    fn advance(self, _: &Limit, _: &mut Window, _: Timestamp, _: Timestamp) {}

    fn earliest(self, _: &Limit, window: &Window, room: Room, _: Timestamp, from: Timestamp) -> Timestamp {
        let fits = from < self.until && window.count + room.amount <= room.capacity;
        if fits { from } else { Timestamp::MAX }
    }

    fn debit(self, _: &Limit, window: &mut Window, room: Room, _: Advance, _: PermitId) -> Debited {
        window.debit(room.amount);
        let holds = window.count <= room.capacity;
        Debited { good_until: self.until, expires: Timestamp::MAX, holds }
    }

    fn settle(self, _: &Limit, window: &mut Window, correction: Correction, _: Timestamp) -> bool {
        window.count = window.count - correction.reserved + correction.actual;
        true
    }

    fn used(self, _: &Limit, window: &Window, _: Timestamp, _: Timestamp) -> u64 {
        window.count
    }

    fn fresh_at(self, _: &Limit, _: &Window, _: Timestamp) -> Timestamp {
        Timestamp::MAX
    }
}

/// Takes all that a fresh meter has, one by one, then asks for one more.
fn obeys_the_laws<R: AlgorithmRules>(rules: R, limit: &Limit, capacity: u64)
where
    R::State: Clone,
{
    let word = rules.word();
    let mut fresh = rules.fresh();
    let state = rules.of_mut(&mut fresh).expect("a fresh state is of the algorithm's kind");
    let room = Room { capacity, amount: 1, edge: Span::ZERO };
    for taken in 0..capacity {
        assert_eq!(rules.earliest(limit, state, room, NOW, NOW), NOW, "{word}: {taken} of {capacity}");
        let span = Advance { as_of: NOW, at: NOW, edge: Span::ZERO };
        assert!(rules.debit(limit, state, room, span, PermitId(u128::from(taken))).holds, "{word}: I1");
        assert_eq!(rules.used(limit, state, NOW, NOW), taken + 1, "{word}");
    }
    let free = rules.earliest(limit, state, room, NOW, NOW);
    assert!(free > NOW, "{word}: I1");
    if free < Timestamp::MAX {
        let at = |at: Timestamp| {
            let mut later = state.clone();
            rules.advance(limit, &mut later, NOW, at);
            rules.earliest(limit, &later, room, at, at)
        };
        assert_eq!((at(free.minus(MICROSECOND)), at(free)), (free, free), "{word}: I4");
    }
    let fresh_at = rules.fresh_at(limit, state, NOW);
    assert!(fresh_at >= free && rules.resets_at(limit, state, NOW, NOW) <= fresh_at, "{word}: I6");
    if fresh_at < Timestamp::MAX {
        rules.advance(limit, state, NOW, fresh_at);
        assert_eq!(rules.used(limit, state, fresh_at, fresh_at), 0, "{word}: I6");
    }
}

#[test]
fn every_algorithm_obeys_the_laws() {
    for text in [
        "5 / minute",
        "5 / day in Europe/Berlin",
        "5 / minute from first call",
        "5 / minute sliding",
        "7 / minute bucket burst 5",
        "5 / minute paced",
        "5 / minute adaptive",
        "5 concurrent",
    ] {
        let limit: Limit = text.parse().unwrap();
        with_rules!(limit.algorithm(), rules => obeys_the_laws(rules, &limit, limit.capacity()));
    }
}

#[test]
fn a_new_algorithm_needs_its_rules_only() {
    let limit: Limit = "5 / minute".parse().unwrap();
    let rules = TrialRules { until: NOW.plus(Span::from_days(14)) };
    assert!(rules.check(5).is_ok());
    obeys_the_laws(rules, &limit, rules.capacity(5));
}
