//! Reading and resetting counters.

use serde_json::json;
use tollway::core::Period;

use super::bank::{CONSUMERS, Place, banks, is_whole, key, told};

/// C9: the counters of one consumer are shown and reset; others keep theirs.
#[test]
fn counters_are_shown_and_reset_per_consumer() {
    for mut bank in banks("") {
        for consumer in ["c", "another"] {
            bank.record(consumer, [-1, -1, 3, -1, 30, -1]);
            assert_eq!(bank.calls(consumer, 4), [200, 200, 200, 429]);
        }
        let counted = bank.look("c", "call-counters");
        let counters = counted["call_counters"].as_object().unwrap();
        assert_eq!(counters.keys().collect::<Vec<_>>(), ["per_hour", "per_week"]);
        for period in [Period::Hour, Period::Week] {
            let counter = &counters[&format!("per_{period}")];
            assert_eq!(counter["calls_made"], 3);
            let reset = counter["reset_in_seconds"].as_u64().unwrap();
            assert!(is_whole(reset, period), "{period}: {reset}");
        }

        let reset = bank.manage("DELETE", &format!("{CONSUMERS}/c/call-counters"), "");
        assert_eq!((reset.status, reset.body.as_str()), (204, ""));
        assert_eq!(bank.look("c", "call-counters"), json!({"call_counters": {}}));
        assert_eq!(told(&bank.call("c")).unwrap()[0..2], [3, 2]);
        assert_eq!(bank.call("another").status, 429);
        if let Place::Redis(redis) = &bank.place {
            assert_eq!(redis.command(&["GET", &key("another", Period::Hour)]), "3");
        }
    }
}

/// C9: a counter of a period that is no longer limited is reset as well.
#[test]
fn reset_removes_every_counter() {
    for mut bank in banks("") {
        let id = bank.record("c", [9; 6]);
        assert_eq!(bank.call("c").status, 200);
        bank.change("c", &id, [-1, -1, -1, -1, -1, 9]);
        bank.manage("DELETE", &format!("{CONSUMERS}/c/call-counters"), "");
        if let Place::Redis(redis) = &bank.place {
            assert_eq!(redis.command(&["KEYS", "c_*"]), "");
        }
        bank.change("c", &id, [-1, 9, -1, -1, -1, -1]);
        assert_eq!(told(&bank.call("c")).unwrap()[0..2], [9, 8]);
    }
}
