//! The limiter as a program uses it: what is granted, what is denied and why, and that a wrong question costs nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use tollway::core::{AmountText, LimitTable, Refusal};
use tollway::{BuildError, Denied, Durations, Limiter, Permit, Policy, Span, TakeError, Taken, Timestamp};
use tollway_testkit::ManualClock;

/// Fifteen seconds into an hour.
const START: Timestamp = Timestamp::from_secs(500_000 * 3_600 + 15);

const GEMINI: [&str; 3] =
    ["5 requests / minute bucket", "5000 tokens / minute", "rpd: 25 requests / day in America/Los_Angeles"];

fn limiter() -> (Limiter, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(START));
    let builder = Limiter::builder().policy("adobe", ["3 requests / minute"]).unwrap();
    let builder = builder.policy("gemini", GEMINI).unwrap().policy("slots", ["2 concurrent"]).unwrap();
    (builder.clock(clock.clone()).build(), clock)
}

fn permit(taken: Result<Taken, TakeError>) -> Permit {
    match taken.unwrap() {
        Taken::Granted(granted) => granted.permit(),
        Taken::Denied(denied) => panic!("{denied}"),
    }
}

fn denied(taken: Result<Taken, TakeError>) -> Denied {
    match taken.unwrap() {
        Taken::Denied(denied) => denied,
        Taken::Granted(permit) => panic!("{permit:?}"),
    }
}

async fn used(limiter: &Limiter, policy: &str) -> Vec<u64> {
    limiter.usage(policy).await.unwrap().limits.iter().map(|limit| limit.used).collect()
}

#[tokio::test]
async fn a_take_is_granted_until_the_limit_and_then_denied_with_its_name_and_time() {
    let (limiter, clock) = limiter();
    for _ in 0..3 {
        assert!(!permit(limiter.try_take("adobe").await).degraded());
    }
    let no = denied(limiter.try_take("adobe").await);
    assert_eq!(no.policy().name().as_str(), "adobe");
    assert_eq!(no.limit().unwrap().name().as_str(), "requests_per_minute");
    assert_eq!(no.retry_after(), Duration::from_secs(45), "at the end of the minute");
    assert!(!no.degraded());
    assert!(no.to_string().contains("adobe"), "{no}");
    clock.advance(Span::from_secs(45));
    assert!(limiter.try_take("adobe").await.unwrap().granted().is_some());
}

#[tokio::test]
async fn now_decides_at_once_with_and_without_a_handle() {
    let (limiter, _clock) = limiter();
    let handle = limiter.policy("adobe").unwrap();
    assert!(limiter.try_take("adobe").now().unwrap().is_granted());
    assert!(handle.try_take().now().unwrap().is_granted());
    assert!(handle.clone().take().await.is_ok());
    assert!(!handle.try_take().await.unwrap().is_granted());
    assert_eq!(handle.usage().now().unwrap(), limiter.usage("adobe").await.unwrap());
}

/// G1: requests, tokens and requests a day together: 5,000 available, take 3,750, 1,250 left.
#[tokio::test]
async fn g1_several_units_are_all_charged_or_none() {
    let (limiter, _clock) = limiter();
    drop(permit(limiter.try_take("gemini").cost("tokens", 3_750).await));
    assert_eq!(used(&limiter, "gemini").await, [1, 3_750, 1]);
    let no = denied(limiter.try_take("gemini").cost("tokens", 1_251).await);
    assert_eq!(no.limit().unwrap().name().as_str(), "tokens_per_minute");
    assert_eq!(used(&limiter, "gemini").await, [1, 3_750, 1], "a denial is free");
    drop(permit(limiter.try_take("gemini").cost("tokens", 1_250).cost("requests", 4).await));
    assert_eq!(used(&limiter, "gemini").await, [5, 5_000, 5]);
}

/// B1: over several policies and subjects, in one decision.
#[tokio::test]
async fn b1_several_policies_are_all_charged_or_none() {
    let (limiter, _clock) = limiter();
    let both = || limiter.try_take("adobe").subject("team-a").and("gemini").cost("tokens", 2_000);
    drop((permit(both().await), permit(both().await)));
    let no = denied(both().await);
    assert_eq!((no.policy().name().as_str(), no.limit().unwrap().unit().as_str()), ("gemini", "tokens"));
    assert_eq!(limiter.usage("adobe").subject("team-a").await.unwrap().limits[0].used, 2);
    assert_eq!(used(&limiter, "adobe").await, [0], "the subject was named for the first policy");
    assert_eq!(used(&limiter, "gemini").await, [2, 4_000, 2]);
}

/// I5: the same id is the same call.
#[tokio::test]
async fn an_id_counts_once_and_is_refused_for_another_cost() {
    let (limiter, clock) = limiter();
    let first = permit(limiter.try_take("gemini").cost("tokens", 100).id("job-7").await);
    let again = permit(limiter.try_take("gemini").cost("tokens", 100).id("job-7").await);
    assert_eq!(first.id(), again.id());
    assert_eq!(used(&limiter, "gemini").await, [1, 100, 1]);
    let error = limiter.try_take("gemini").cost("tokens", 200).id("job-7").await.unwrap_err();
    assert!(matches!(&error, TakeError::Refused(Refusal::IdReused(id)) if id == "job-7"), "{error}");
    clock.advance(Span::from_mins(10));
    let later = permit(limiter.try_take("gemini").cost("tokens", 100).id("job-7").await);
    assert_ne!(first.id(), later.id(), "ten minutes later it is another call");
}

/// I1, I5: a returned permit is gone, also for a caller that repeats its id.
#[tokio::test]
async fn an_id_whose_permit_was_given_back_takes_again() {
    let (limiter, _clock) = limiter();
    permit(limiter.try_take("adobe").id("job-7").await).give_back().await.unwrap();
    let others: Vec<_> = (0..3).map(|_| limiter.try_take("adobe").now().unwrap()).collect();
    assert!(others.iter().all(Taken::is_granted));
    assert!(
        !limiter.try_take("adobe").id("job-7").await.unwrap().is_granted(),
        "a fourth call in one minute"
    );
}

/// A2: count, limit, window and time to reset; and the limit in force.
#[tokio::test]
async fn a2_usage_reports_count_limit_and_time_to_reset() {
    let (limiter, _clock) = limiter();
    drop(permit(limiter.try_take("gemini").cost("tokens", 1_000).await));
    let usage = limiter.usage("gemini").await.unwrap();
    let [bucket, tokens, day] = &usage.limits[..] else { panic!("{usage:?}") };
    assert_eq!((bucket.amount, bucket.capacity, bucket.used, bucket.remaining), (5, 5, 1, 4));
    assert_eq!(bucket.resets_in, Span::from_secs(12), "one of five a minute");
    assert_eq!((tokens.unit.as_str(), tokens.used, tokens.remaining), ("tokens", 1_000, 4_000));
    assert_eq!(tokens.resets_in, Span::from_secs(45));
    assert_eq!((day.name.as_str(), day.remaining), ("rpd", 24));
    assert_eq!((day.as_of, day.resets_at), (START, START.plus(day.resets_in)));
    assert_eq!(limiter.policies().len(), 3);
    assert_eq!(limiter.policies()[0].limits()[0].amount(), 3, "adobe comes first by name");
}

#[tokio::test]
async fn requested_readings_come_with_the_answer() {
    let (limiter, _clock) = limiter();
    assert!(permit(limiter.try_take("adobe").await).decision().charges.is_empty());
    let yes = permit(limiter.try_take("adobe").and("gemini").with_readings().await);
    let readings = yes.decision().charges.iter().flat_map(|charge| &charge.readings);
    assert_eq!(readings.map(|reading| reading.used).collect::<Vec<_>>(), [2, 1, 0, 1]);
    drop(permit(limiter.try_take("adobe").await));
    let no = denied(limiter.try_take("adobe").with_readings().await);
    assert_eq!(
        (no.decision().charges[0].readings[0].used, no.decision().charges[0].readings[0].remaining),
        (3, 0)
    );
    assert!(denied(limiter.try_take("adobe").await).decision().charges.is_empty());
}

#[tokio::test]
async fn reset_affects_one_subject_and_voids_older_permits() {
    let (limiter, _clock) = limiter();
    let take = |subject: &'static str| limiter.try_take("adobe").subject(subject);
    let old = permit(take("a").await);
    drop((permit(take("a").await), permit(take("b").await)));
    limiter.reset("adobe").subject("a").await.unwrap();
    assert_eq!(old.give_back().await.unwrap(), tollway::Settled::Dropped);
    let of = |subject: &'static str| limiter.usage("adobe").subject(subject).now().unwrap().limits[0].used;
    assert_eq!((of("a"), of("b")), (0, 1));
    limiter.reset("adobe").subject("b").now().unwrap();
    assert_eq!(of("b"), 0);
}

/// B9: a shadow policy reports and never denies.
#[tokio::test]
async fn b9_a_shadow_would_deny_but_never_does() {
    let shadow = Policy::new("trial", ["1 / minute"]).unwrap().with_shadow(true);
    let builder = Limiter::builder().policy("adobe", ["3 / minute"]).unwrap().with_policy(shadow).unwrap();
    let limiter = builder.clock(Arc::new(ManualClock::at(START))).build();
    let both = || limiter.try_take("adobe").and("trial").now();
    assert!(!permit(both()).would_deny());
    assert!(permit(both()).would_deny());
    assert_eq!((used(&limiter, "adobe").await, used(&limiter, "trial").await), (vec![2], vec![1]));
}

/// T19, A-3: every invalid take gets a reason, and no meter of any policy changes.
#[tokio::test]
async fn an_invalid_take_fails_at_once_and_changes_no_meter() {
    let (limiter, _clock) = limiter();
    drop(permit(limiter.try_take("adobe").await));
    drop(permit(limiter.try_take("gemini").cost("tokens", 10).await));
    let all = || async { (used(&limiter, "adobe").await, used(&limiter, "gemini").await) };
    let before = all().await;
    let long = "x".repeat(1_025);
    let take = || limiter.take("gemini");
    let wrong = [
        (limiter.take("gemni"), "did you mean \"gemini\"?"),
        (limiter.take("something-else"), "there is no policy \"something-else\""),
        (limiter.take(""), "there is no policy \"\""),
        (take().and("adobee"), "did you mean \"adobe\"?"),
        (take().subject(&long), "the subject has 1025 bytes, more than the 1024 allowed"),
        (take().subject("a\0b"), "the subject contains '\\0'"),
        (take().cost("tokns", 1), "did you mean \"tokens\"?"),
        (take().cost("furlongs", 1), "no limit of policy gemini counts \"furlongs\""),
        (take().cost("tokens", 5_001), "can never be granted by tokens_per_minute"),
        (take().cost("tokens", u64::MAX), "is more than the largest amount"),
        (take().cost("requests", u64::MAX), "is more than the largest amount"),
        (take().id(""), "the id is empty"),
        (take().id(&"i".repeat(129)), "the id has 129 bytes"),
        (take().id("a\0"), "the id contains '\\0'"),
        (take().and("gemini"), "appears twice in one take"),
        // Of several mistakes at least one is reported.
        (take().subject("a\0b").cost("tokns", 1).id(""), ""),
    ];
    for (take, message) in wrong {
        let error = take.max_wait(1.minutes()).await.unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert!(error.denied().is_none(), "{error}");
        assert_eq!(all().await, before, "{error}");
    }
    let subjects: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let many = subjects.iter().fold(take().subject("0"), |take, subject| take.and("adobe").subject(subject));
    let error = many.await.unwrap_err();
    assert!(matches!(error, TakeError::Refused(Refusal::ChargeCount(21))), "{error}");
    assert_eq!(all().await, before);
    assert!(limiter.try_take("adobe").subject(&"x".repeat(1_024)).await.unwrap().is_granted());
}

#[tokio::test]
async fn usage_of_an_unknown_policy_fails() {
    let (limiter, _clock) = limiter();
    assert!(matches!(limiter.usage("nobody").await, Err(TakeError::UnknownPolicy { meant: None, .. })));
    assert!(matches!(limiter.reset("gemin").now(), Err(TakeError::UnknownPolicy { meant: Some(_), .. })));
    assert!(matches!(limiter.usage("adobe").subject("\0").await, Err(TakeError::Name(_))));
    assert!(limiter.policy("adob").is_err());
    let name = "x".repeat(10_000);
    assert!(limiter.policy(&name).err().unwrap().to_string().len() < 200, "no endless error");
}

/// T8, T19: what cannot be a limit is refused when the limiter is built.
#[test]
fn an_invalid_limit_cannot_be_built() {
    for (limit, message) in [
        ("0 requests / minute", "0"),
        ("5 requests / day in Amerika/Berlin", "Amerika/Berlin"),
        ("5 requests / fortnight", "fortnight"),
        ("5 requests / 2 weeks", "week"),
        ("2000000000000000 requests / minute", "1000000000000000"),
        ("5 requests / minute bucket burst 0", "0"),
        ("20000 concurrent", "10000"),
        ("five requests / minute", "five"),
        ("", "amount"),
    ] {
        let error = Limiter::builder().policy("adobe", [limit]).err().unwrap();
        assert!(matches!(error, BuildError::Policy(_)), "{error}");
        assert!(error.to_string().contains(message), "{limit}: {error}");
    }
    assert!(Limiter::builder().policy("adobe", []).is_err());
    assert!(Limiter::builder().policy("a b", ["5 / minute"]).is_err());
    let twice = Limiter::builder().policy("adobe", ["5 / minute"]).unwrap().policy("adobe", ["6 / minute"]);
    assert!(matches!(twice.err().unwrap(), BuildError::SamePolicy(name) if name == "adobe"));
    let table = LimitTable { amount: AmountText::Number(0), ..LimitTable::default() };
    assert!(tollway::Limit::try_from(table).is_err());
}
