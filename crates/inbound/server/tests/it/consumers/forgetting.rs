//! A period that becomes unlimited loses its counter.

use serde_json::json;
use tollway::core::Period;

use super::bank::{Bank, Place, UNLIMITED, banks, told};

fn keys(bank: &Bank, consumer: &str) -> Vec<String> {
    let listed = bank.redis().command(&["KEYS", &format!("{consumer}_*")]);
    let mut keys: Vec<String> = listed.lines().map(str::to_owned).collect();
    keys.sort();
    keys
}

/// C3: one period of two; when it is limited again, its counter starts at zero.
#[test]
fn period_that_becomes_unlimited_loses_its_counter() {
    for mut bank in banks("") {
        let id = bank.record("c", [-1, 5, 5, -1, -1, -1]);
        assert_eq!(bank.calls("c", 2), [200, 200]);
        bank.change("c", &id, [-1, -1, 5, -1, -1, -1]);
        assert_eq!(told(&bank.call("c")).unwrap()[0..2], [5, 2], "the hour goes on");
        if matches!(bank.place, Place::Redis(_)) {
            assert_eq!(keys(&bank, "c"), ["c_PER_HOUR"]);
        }
        bank.change("c", &id, [-1, 5, 5, -1, -1, -1]);
        assert_eq!(told(&bank.call("c")).unwrap()[0..2], [5, 4], "a new minute");
        let counters = bank.look("c", "call-counters");
        assert_eq!(counters["call_counters"]["per_minute"]["calls_made"], 1);
        assert_eq!(counters["call_counters"]["per_hour"]["calls_made"], 4);
    }
}

/// C3: all six at once; the next call removes the counters.
#[test]
fn last_counter_goes_with_the_last_limit() {
    for mut bank in banks("") {
        let id = bank.record("c", [50, 50, 50, 50, 50, 50]);
        assert_eq!(bank.calls("c", 3), [200; 3]);
        bank.change("c", &id, UNLIMITED);
        let free = bank.call("c");
        assert_eq!((free.status, told(&free)), (200, None));
        if matches!(bank.place, Place::Redis(_)) {
            assert_eq!(keys(&bank, "c"), Vec::<String>::new());
        }
        let limits = bank.look("c", "consumer/call-limits");
        assert_eq!(limits["redis_call_limit"], json!({}));
        for period in Period::ALL {
            assert_eq!(limits[format!("per_{period}_call_limit")], "-1");
        }
        bank.change("c", &id, [-1, -1, -1, -1, 50, -1]);
        assert_eq!(told(&bank.call("c")).unwrap()[0..2], [50, 49]);
    }
}
