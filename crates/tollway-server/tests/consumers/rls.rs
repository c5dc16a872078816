//! Consumers behind Envoy: a descriptor names one.

use tollway::core::Period;

use crate::bank::{Bank, CONSUMERS, Place, only};
use crate::messages::{OK, OVER_LIMIT, descriptor, question};

const DESCRIPTORS: &str = r#"
    [[server.descriptors]]
    domain = "edge"
    keys = ["consumer"]
    policy = "consumers"
"#;

/// C1, C3: a consumer that a descriptor names is limited by its records, and shares its counters with HTTP.
#[test]
fn a_descriptor_that_names_a_consumer_is_limited_by_its_records() {
    for place in [Place::memory(), Place::redis()] {
        let mut bank = Bank::at(place, "", DESCRIPTORS);
        bank.record("c", only(Period::Hour, 3));
        let mut envoy = bank.running.envoy();
        let mut ask = |consumer: &str| {
            envoy.ask(&question([descriptor(&[&format!("consumer={consumer}")])])).overall_code
        };
        assert_eq!(bank.call("c").status, 200);
        assert_eq!([(); 4].map(|()| ask("c")), [OK, OK, OVER_LIMIT, OVER_LIMIT]);
        assert_eq!(bank.call("c").status, 429);
        assert_eq!(ask("without-a-record"), OK);
        bank.manage("PUT", &format!("{CONSUMERS}/blocked-one/blocked"), r#"{"blocked": true}"#);
        assert_eq!(ask("blocked-one"), OVER_LIMIT);
    }
}
