//! Policies that their caller made.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use tollway::core::Policy;
use tollway::{BindError, Limiter};

fn policy(name: &str, limit: &str) -> Policy {
    Policy::new(name, [limit]).unwrap()
}

#[test]
fn a_bound_policy_outlives_a_limit_that_is_set() {
    let limiter = Limiter::builder().policy("adobe", ["5 / hour"]).unwrap().build();
    let handle = limiter.bind(policy("chosen", "3 / hour")).unwrap();
    assert!(handle.try_take().subject("anna").now().unwrap().is_granted());
    // Exchanges the limiter's policies, as a reload does.
    limiter.set_limit("adobe", "requests_per_hour", "7").now().unwrap();
    let clone = handle.clone();
    assert!(clone.try_take().subject("anna").now().unwrap().is_granted());
    limiter.set_limit("adobe", "requests_per_hour", "8").now().unwrap();
    assert!(clone.try_take().subject("anna").now().unwrap().is_granted());
    assert!(!handle.try_take().subject("anna").now().unwrap().is_granted());
    assert!(handle.try_take().subject("berta").now().unwrap().is_granted());
}

#[test]
fn binding_the_name_of_a_configured_policy_fails() {
    let limiter = Limiter::builder().policy("adobe", ["5 / hour"]).unwrap().build();
    let error = limiter.bind(policy("adobe", "3 / hour")).err().unwrap();
    assert!(matches!(&error, BindError::Configured(name) if name.as_str() == "adobe"), "{error}");
}

/// B1: one decision over a policy of the config and one of the caller's.
#[test]
fn a_take_under_both_charges_both_or_none() {
    let limiter = Limiter::builder().policy("adobe", ["5 / hour"]).unwrap().build();
    let handle = limiter.bind(policy("chosen", "1 / hour")).unwrap();
    let take = || {
        limiter
            .try_take("adobe")
            .subject("anna")
            .and_under(&handle)
            .subject("anna")
            .now()
            .unwrap()
            .is_granted()
    };
    assert!(take());
    assert!(!take());
    assert_eq!(limiter.usage("adobe").subject("anna").now().unwrap().limits[0].used, 1);
}
