//! The worked examples of the specification.

use tollway::core::{Period, Span};

use super::bank::{Bank, Place, banks, is_whole, only, record, told};

/// C1, C5, the specified request flow: 100 a minute, 99, 98 and 97 remaining, and a new window after 60 seconds.
#[test]
fn worked_example_of_100_requests_a_minute() {
    for mut bank in banks("") {
        bank.record("consumer_123", only(Period::Minute, 100));
        for remaining in [99, 98, 97] {
            let answer = bank.call("consumer_123");
            assert_eq!(answer.status, 200);
            let [limit, left, reset] = told(&answer).unwrap();
            assert_eq!((limit, left), (100, remaining));
            assert!(is_whole(reset, Period::Minute), "{reset}");
        }
        bank.pass("consumer_123", Period::Minute);
        let [limit, left, reset] = told(&bank.call("consumer_123")).unwrap();
        assert_eq!((limit, left), (100, 99), "a new window");
        assert!(is_whole(reset, Period::Minute), "{reset}");
    }
}

/// C1: the window begins with the first call and ends a minute later, not at a full minute of the clock.
#[test]
fn window_begins_with_the_first_call() {
    let mut bank = Bank::at(Place::memory(), "", "");
    bank.record("c", only(Period::Minute, 1));
    bank.advance(Span::from_secs(45));
    assert_eq!(bank.calls("c", 2), [200, 429]);
    bank.advance(Span::from_millis(59_999));
    assert_eq!(bank.calls("c", 1), [429], "a millisecond is left");
    bank.advance(Span::from_millis(1));
    assert_eq!(bank.calls("c", 2), [200, 429]);
}

/// C3, the specified aggregation: 100 and 50 a minute are 150, and the 151st call is denied.
#[test]
fn aggregation_example_100_plus_50_is_150() {
    for mut bank in banks("") {
        let mut fifty = record(only(Period::Minute, 50));
        fifty["api_name"] = "getAccounts".into();
        let first = bank.record("consumer_123", only(Period::Minute, 100));
        let second = bank.record_of("consumer_123", &fifty);
        let active = bank.look("consumer_123", "active-rate-limits");
        assert_eq!(active["active_per_minute_rate_limit"], 150);
        let considered = active["considered_rate_limit_ids"].as_array().unwrap();
        assert!(
            considered.len() == 2 && [first, second].iter().all(|id| considered.contains(&(&**id).into()))
        );

        assert_eq!(bank.calls("consumer_123", 150), [200; 150]);
        let refused = bank.call("consumer_123");
        assert_eq!(refused.status, 429);
        let message = "Too Many Requests. We only allow 150 requests per minute for this Consumer.";
        assert_eq!(refused.json()["message"], message);
    }
}

/// C3: two records of the same scope and dates, the end written as "for ever", are added up and shown as they were made.
#[test]
fn equal_records_until_9999_add_up() {
    let mut bank = Bank::at(Place::memory(), "", "");
    let mut forever = record(only(Period::Minute, 2));
    forever["to_date"] = "9999-12-31T00:00:00Z".into();
    for _ in 0..2 {
        bank.record_of("c", &forever);
    }
    assert_eq!(bank.look("c", "active-rate-limits")["active_per_minute_rate_limit"], 4);
    assert_eq!(bank.calls("c", 5), [200, 200, 200, 200, 429]);
    for kept in bank.look("c", "consumer/rate-limits")["limits"].as_array().unwrap() {
        assert_eq!(kept["to_date"], "9999-12-31T00:00:00Z");
    }
}

/// C3: 100 and -1 give 100; a 0 is ignored as well.
#[test]
fn non_positive_amounts_are_ignored() {
    let mut bank = Bank::at(Place::memory(), "", "");
    for (name, other) in [("minus", -1), ("zero", 0)] {
        let mut second = record(only(Period::Minute, other));
        second["bank_id"] = "rbs".into();
        bank.record(name, only(Period::Minute, 100));
        bank.record_of(name, &second);
        assert_eq!(told(&bank.call(name)), Some([100, 99, 60]), "{name}");
    }
}
