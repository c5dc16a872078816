//! A hundred thousand policies: what handles them is linear in their number, or these tests take minutes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;

use tollway::core::Policy;
use tollway::core::bounds::SETTINGS_MAX;
use tollway::{Config, Limiter, TakeError};

/// The number that a config must carry.
const MANY: usize = 100_000;

fn name(n: usize) -> String {
    format!("tenant-{n:06}")
}

fn policies() -> impl Iterator<Item = Policy> {
    (0..MANY).map(|n| Policy::new(&name(n), ["100 requests / minute", "2000 requests / day"]).unwrap())
}

/// Comparing all pairs once would be five thousand million comparisons.
#[test]
fn a_builder_takes_many_policies_one_by_one_and_finds_a_duplicate() {
    let builder = policies().try_fold(Limiter::builder(), |all, policy| all.with_policy(policy)).unwrap();
    let limiter = builder.build();
    assert_eq!(limiter.policies().len(), MANY);
    assert!(limiter.try_take(&name(MANY - 1)).now().unwrap().is_granted());
    let twice = policies().chain([Policy::new(&name(7), ["1 / day"]).unwrap()]);
    let error = limiter.replace_policies(twice).unwrap_err().to_string();
    assert!(error.contains(&name(7)), "{error}");
    limiter.replace_policies(policies().skip(1)).unwrap();
    assert_eq!(limiter.policies().len(), MANY - 1);
}

/// A file of two limits each fits the bound of a config; apis that name its policies are checked against all of them.
#[test]
fn a_config_of_many_policies_and_apis_is_read() {
    let mut text = String::new();
    for n in 0..MANY {
        let name = name(n);
        let _ =
            writeln!(text, "[policies.{name}]\nlimits = ['100 requests / minute', '2000 requests / day']");
    }
    for n in 0..2_000 {
        let (policy, api) = (name(n * 50), format!("api-{n}"));
        let _ = writeln!(text, "[apis.{api}]\nbase_url = 'https://{api}.example'\npolicy = '{policy}'");
    }
    let config = Config::parse(&text).unwrap();
    assert_eq!((config.policies().len(), config.apis().len()), (MANY, 2_000));
    let limiter = Limiter::builder().config(&config).unwrap().build();
    limiter.replace_config(&config);
    assert_eq!(limiter.policies().len(), MANY);
    let wrong = text.replace("policy = 'tenant-0", "policy = 'tenent-0");
    let error = Config::parse(&wrong).unwrap_err();
    assert!(error.unlisted() > 900 && error.to_string().len() < 100_000, "{} more", error.unlisted());
}

/// A3: each policy can be set, and as many limits at one time as the store has room for; every policy asks for its own.
#[test]
fn settings_reach_each_of_many_policies() {
    let limiter = Limiter::builder().build();
    limiter.replace_policies(policies()).unwrap();
    for n in [0, MANY / 2, MANY - 1] {
        limiter.set_limit(&name(n), "requests_per_minute", "7").now().unwrap();
        assert_eq!(limiter.policy(&name(n)).unwrap().policy().limits()[0].amount(), 7);
        assert!(!limiter.is_stopped(&name(n), "requests_per_minute"));
    }
    assert_eq!(limiter.settings().len(), 3);
    for policy in limiter.policies() {
        for limit in policy.limits() {
            let set = limit.amount() == 7;
            let origin = limiter.origin(policy.name().as_str(), limit.name().as_str());
            assert_eq!(origin != tollway::source::Origin::Config, set, "{}", policy.name());
        }
    }
    const { assert!(SETTINGS_MAX < MANY, "the page says that not all of them can be set at one time") };
}

/// Callers choose the names: an unknown one must not cost a comparison with every known one.
#[test]
fn an_unknown_policy_among_many_costs_no_search_for_a_likely_one() {
    let limiter = Limiter::builder().build();
    limiter.replace_policies(policies()).unwrap();
    for _ in 0..10_000 {
        let error = limiter.try_take("tenant-00000x").now().unwrap_err();
        assert!(matches!(error, TakeError::UnknownPolicy { meant: None, .. }), "{error}");
    }
}
