//! The documented messages of denials, for all six periods.

use serde_json::json;
use tollway::core::Period;

use super::bank::{Bank, Place, banks, only};

/// C5: `per second` to `per month`, for a consumer.
#[test]
fn denial_names_the_limit_for_a_consumer() {
    for mut bank in banks("") {
        for period in Period::ALL {
            let consumer = format!("of_{period}");
            bank.record(&consumer, only(period, 1));
            match period {
                Period::Second => bank.first_call_in_a_long_second(&consumer),
                _ => assert_eq!(bank.call(&consumer).status, 200),
            }
            let refused = bank.call(&consumer);
            assert_eq!(refused.status, 429, "{period}: {refused:?}");
            assert_eq!(refused.header("content-type"), Some("application/json"));
            let message =
                format!("Too Many Requests. We only allow 1 requests per {period} for this Consumer.");
            let told = refused.json();
            assert_eq!((&told["code"], &told["message"]), (&json!(429), &json!(message)));
            assert_eq!(told["limit"], format!("per_{period}"));
        }
    }
}

/// C5: the same for anonymous callers, for every period that the config may limit.
#[test]
fn denial_names_the_limit_for_an_anonymous_caller() {
    for period in Period::ALL {
        let policy = format!("[policies.anonymous]\nlimits = [\"1 requests / {period} from first call\"]");
        let mut bank = Bank::at(Place::memory(), "", &policy);
        assert_eq!(bank.call_with("").status, 200);
        let refused = bank.call_with("");
        assert_eq!(refused.status, 429);
        let message =
            format!("Too Many Requests. We only allow 1 requests per {period} for anonymous access.");
        assert_eq!(refused.json()["message"], message);
    }
}
