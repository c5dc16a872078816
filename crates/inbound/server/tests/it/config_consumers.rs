//! `[consumers]` in the config file.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::num::NonZeroU64;
use std::path::PathBuf;

use tollway::core::WhenStoreFails;
use tollway_consumers::{ANONYMOUS_POLICY, ConsumersConfig, RecordsUrl};
use tollway_server::{ConfigWithServer, DescriptorTarget};

fn consumers(text: &str) -> ConsumersConfig {
    ConfigWithServer::parse(text).unwrap().consumers().unwrap().clone()
}

/// C6: every property has its documented default.
#[test]
fn defaults_are_as_documented() {
    assert_eq!(ConfigWithServer::parse("").unwrap().consumers(), None, "off");
    let bare = consumers("[consumers]");
    assert_eq!(bare, ConsumersConfig::default());
    assert_eq!(bare.anonymous_per_hour, NonZeroU64::new(1_000));
    assert_eq!(bare.defaults, [-1; 6]);
    assert_eq!(bare.when_store_fails, WhenStoreFails::Open);
    assert_eq!(bare.records.to_string(), "sqlite:tollway.db");
}

/// C6: every property can be set.
#[test]
fn every_key_of_consumers_is_read() {
    let all = consumers(
        r#"
        [consumers]
        enabled = false
        records = "sqlite:/var/lib/tollway/consumers.db"
        header = "X-Consumer-Id"
        anonymous_per_hour = 50
        per_second = 1
        per_minute = 2
        per_hour = 3
        per_day = 4
        per_week = 5
        per_month = 6
        when_store_fails = "closed"
        [consumers.tokens]
        file = "tokens"
        "#,
    );
    assert!(!all.enabled);
    assert_eq!(all.records, RecordsUrl::Sqlite("/var/lib/tollway/consumers.db".into()));
    assert_eq!(all.who.header.as_deref(), Some("x-consumer-id"));
    let tokens = all.who.tokens.unwrap();
    assert_eq!((tokens.header.as_str(), tokens.file), ("authorization", PathBuf::from("tokens")));
    assert_eq!(all.anonymous_per_hour, NonZeroU64::new(50));
    assert_eq!(all.defaults, [1, 2, 3, 4, 5, 6]);
    assert_eq!(all.when_store_fails, WhenStoreFails::Closed);
}

/// C4: callers without credentials have a default policy, unless the config makes them unlimited or has its own.
#[test]
fn anonymous_callers_have_a_policy() {
    let of = |text: &str| {
        let config = ConfigWithServer::parse(text).unwrap();
        config.limits().policy(ANONYMOUS_POLICY).map(|policy| policy.limits()[0].amount())
    };
    assert_eq!(of("[consumers]"), Some(1_000));
    assert_eq!(of("[consumers]\nanonymous_per_hour = 7"), Some(7));
    assert_eq!(of("[consumers]\nanonymous_per_hour = -1"), None);
    assert_eq!(of("[policies.anonymous]\nlimits = [\"3 / minute\"]\n[consumers]"), Some(3));
}

/// A descriptor rule for consumers takes the id from the last entry.
#[test]
fn consumer_descriptor_uses_the_last_entry() {
    let rule = "[[server.descriptors]]\ndomain = \"edge\"\nkeys = [\"kind=api\", \"consumer_id\"]\npolicy = \"consumers\"";
    assert!(ConfigWithServer::parse(rule).is_err(), "there is no such policy without [consumers]");
    let config = ConfigWithServer::parse(&format!("[consumers]\n{rule}")).unwrap();
    let DescriptorTarget::Policy { policy, subject, .. } = &config.server().unwrap().descriptors[0].target
    else {
        panic!("it counts");
    };
    assert_eq!(policy, "consumers");
    assert!(format!("{subject:?}").contains("[Value(1)]"), "the second entry and nothing else: {subject:?}");
}

/// C4: with consumers, a descriptor rule for anonymous callers takes the address from the last entry.
#[test]
fn anonymous_descriptor_uses_the_last_entry() {
    let rule = "[[server.descriptors]]\ndomain = \"edge\"\nkeys = [\"kind=api\", \"address\"]\npolicy = \"anonymous\"";
    let of =
        |text: &str| match &ConfigWithServer::parse(text).unwrap().server().unwrap().descriptors[0].target {
            DescriptorTarget::Policy { subject, .. } => format!("{subject:?}").contains("[Value(1)]"),
            other => panic!("it counts: {other:?}"),
        };
    assert!(of(&format!("[consumers]\n{rule}")));
    assert!(
        !of(&format!("[policies.anonymous]\nlimits = [\"3 / minute\"]\n{rule}")),
        "a policy like any other"
    );
}

/// C4: no caller reports the end of an anonymous call, so a concurrency limit is rejected.
#[test]
fn anonymous_policy_rejects_concurrency_limits() {
    let slots = "[policies.anonymous]\nlimits = [\"5 concurrent\"]\n";
    assert!(ConfigWithServer::parse(slots).is_ok(), "a policy like any other");
    for section in ["[consumers]", "[server.authorize]\nsubject_headers = [\"x-api-key\"]"] {
        let error = ConfigWithServer::parse(&format!("{slots}{section}")).unwrap_err();
        assert!(error.to_string().contains("cannot have a concurrency limit"), "{error}");
    }
}
