//! Which period the headers show.

use tollway::core::{Period, Span};

use super::bank::{Bank, Place, banks, is_whole, told};

/// C5: a success shows the shortest limited period, a 429 the denying one; of several denying ones, the shortest.
#[test]
fn headers_show_the_shortest_or_the_denying_period() {
    for mut bank in banks("") {
        bank.record("c", [-1, 10, 3, -1, -1, 50]);
        for remaining in [9, 8, 7] {
            let [limit, left, _] = told(&bank.call("c")).unwrap();
            assert_eq!((limit, left), (10, remaining), "the shortest of three");
        }
        let refused = bank.call("c");
        assert_eq!(refused.status, 429);
        let [limit, left, reset] = told(&refused).unwrap();
        assert_eq!((limit, left), (3, 0), "the hour denies");
        assert!(is_whole(reset, Period::Hour), "{reset}");
        assert_eq!(refused.header("retry-after").unwrap(), reset.to_string());

        bank.record("both", [-1, 2, 2, -1, -1, -1]);
        assert_eq!(bank.calls("both", 2), [200, 200]);
        let refused = bank.call("both");
        assert_eq!(told(&refused).unwrap()[0..2], [2, 0]);
        assert_eq!(refused.json()["limit"], "per_minute", "of two that deny, the shorter");
    }
}

/// C5: `x-rate-limit-*` shows the shortest of six periods, and the structured fields show all of them.
#[test]
fn headers_show_all_six_limits() {
    let mut bank = Bank::at(Place::memory(), "", "");
    bank.record("c", [10, 100, 1_000, 10_000, 50_000, 200_000]);
    let answer = bank.call("c");
    assert_eq!(told(&answer), Some([10, 9, 1]));
    let fields = answer.header("ratelimit").unwrap();
    for period in Period::ALL {
        assert!(fields.contains(&format!("\"per_{period}\"")), "{fields}");
    }
    bank.advance(Span::from_millis(2_500));
    assert_eq!(told(&bank.call("c")), Some([10, 9, 1]), "a new second in the same minute");
    let counters = bank.look("c", "call-counters");
    assert_eq!(counters["call_counters"]["per_minute"]["calls_made"], 2);
}

/// A call that one limit denies counts in no limit.
#[test]
fn denied_call_counts_in_no_limit() {
    for mut bank in banks("") {
        bank.record("c", [-1, 2, 100, -1, -1, -1]);
        assert_eq!(bank.calls("c", 5), [200, 200, 429, 429, 429]);
        let counters = bank.look("c", "call-counters");
        assert_eq!(counters["call_counters"]["per_hour"]["calls_made"], 2);
    }
}
