//! Callers without credentials: per address and hour.

use tollway::core::Period;

use super::bank::{Bank, Place, is_whole, told};

const BEHIND_A_PROXY: &str = "[server.address]\ntrusted_networks = [\"127.0.0.1\"]";

fn from(address: &str) -> String {
    format!("x-forwarded-for: {address}\r\n")
}

/// C4: each address has 1,000 calls an hour by default, and 1,000 more in the next hour.
#[test]
fn each_address_has_a_thousand_calls_an_hour() {
    for place in [Place::memory(), Place::redis()] {
        let mut bank = Bank::at(place, "", BEHIND_A_PROXY);
        for call in 1..=1_000 {
            let answer = bank.call_with(&from("203.0.113.7"));
            assert_eq!((answer.status, told(&answer).unwrap()[1]), (200, 1_000 - call));
        }
        let refused = bank.call_with(&from("203.0.113.7"));
        assert_eq!((refused.status, &told(&refused).unwrap()[0..2]), (429, &[1_000, 0][..]));
        let message = "Too Many Requests. We only allow 1000 requests per hour for anonymous access.";
        assert_eq!(refused.json()["message"], message);
        assert_eq!(bank.call_with(&from("203.0.113.8")).status, 200);
        if let Place::Redis(redis) = &bank.place {
            assert_eq!(redis.command(&["GET", "203.0.113.7_PER_HOUR"]), "1000");
        }
        bank.pass("203.0.113.7", Period::Hour);
        let [limit, left, reset] = told(&bank.call_with(&from("203.0.113.7"))).unwrap();
        assert_eq!((limit, left), (1_000, 999));
        assert!(is_whole(reset, Period::Hour), "{reset}");
    }
}

/// C6: the config sets the limit; -1 means no limit.
#[test]
fn anonymous_limit_is_configurable() {
    let mut bank = Bank::at(Place::memory(), "anonymous_per_hour = 2", "");
    assert_eq!([(); 3].map(|()| bank.call_with("").status), [200, 200, 429]);
    let mut bank = Bank::at(Place::memory(), "anonymous_per_hour = -1", "");
    let answer = bank.call_with("");
    assert_eq!((answer.status, told(&answer)), (200, None), "nothing is counted");
}

/// C4: calls with and without credentials from one address count separately.
#[test]
fn consumer_and_its_address_count_separately() {
    for place in [Place::memory(), Place::redis()] {
        let mut bank = Bank::at(place, "anonymous_per_hour = 1\nper_hour = 1", "");
        assert_eq!(bank.calls("c", 2), [200, 429]);
        assert_eq!([(); 2].map(|()| bank.call_with("").status), [200, 429]);
    }
}
