//! Retries within a budget, and the error at its end.

use std::time::Duration;

use http::StatusCode;
use tollway::metrics::RefusedBy;
use tollway_client::{ApiClient, Attempts, CallFailure, CallOptions, RefusalKind};

use crate::{client, limiter, vendor, vendor_with};

/// D2: a refused call is sent again after the wait the vendor asked for.
#[tokio::test]
async fn a_refused_call_is_sent_again() {
    let vendor = vendor(&["1 / second"], "http").await;
    let client = client(&vendor.url(), "limits = [\"1000 / second\"]");
    let mut refusals = 0;
    for _ in 0..3 {
        let response = client.get("/").send().await.unwrap();
        let attempts = Attempts::of(response.extensions());
        let [refused @ .., last] = attempts else { panic!("no attempt is shown") };
        assert_eq!((response.status(), last.status), (StatusCode::OK, Some(StatusCode::OK)));
        assert!(refused.iter().all(|attempt| attempt.refusal == Some(RefusalKind::Rate)), "{refused:?}");
        refusals += refused.len() as u64;
    }
    let counts = vendor.counts();
    assert!(counts.accepted == 3 && (1..=4).contains(&counts.refused), "{counts:?}");
    assert_eq!(counts.refused, refusals);
}

/// D2: after `max_retries` the error says what happened, attempt by attempt.
#[tokio::test]
async fn the_last_refusal_is_an_error_with_every_attempt() {
    let vendor = vendor_with(&["1 / hour"], "http", |_| {}).await;
    let client = client(
        &vendor.url(),
        "rate = \"off\"\nlimits = [\"1000 / second\"]\nmax_retries = 2\nmax_time = \"1d\"",
    );
    client.get("/").send().await.unwrap();
    // The vendor asks for up to an hour.
    let error = client.get("/").max_time(Duration::from_secs(5)).send().await.unwrap_err();
    assert!(matches!(error.failure, CallFailure::NoPermit(_)), "{error}");
    let [attempt] = &error.attempts[..] else { panic!("{error}") };
    assert_eq!(
        (attempt.status, attempt.refusal),
        (Some(StatusCode::TOO_MANY_REQUESTS), Some(RefusalKind::Rate))
    );
    assert!(attempt.wait.unwrap() > Duration::from_secs(5), "{error}");
    assert!(error.retry_after().unwrap() > Duration::from_secs(1), "{error}");
    assert!(error.is_retryable());
    assert!(error.to_string().contains("attempt 1: 429 rate"), "{error}");
}

#[tokio::test]
async fn retries_end_after_max_retries() {
    let vendor = vendor(&["1 concurrent"], "stripe").await;
    vendor.set_quotas(Vec::new());
    let vendor = crate::vendor_with(&["1 / day"], "bare", |_| {}).await;
    let limiter = limiter(&vendor.url(), "rate = \"off\"\nlimits = [\"1000 / second\"]");
    let client = ApiClient::builder("test").limiter(&limiter).max_retries(1).build().unwrap();
    client.get("/").send().await.unwrap();
    let error = client.get("/").send().await.unwrap_err();
    assert!(matches!(error.failure, CallFailure::Refused), "{error}");
    assert_eq!(error.attempts.len(), 2, "{error}");
    assert_eq!(vendor.counts().refused, 2);
}

/// An account without any quota does not get one by waiting.
#[tokio::test]
async fn no_access_is_not_sent_again() {
    let vendor = vendor(&["1 / day"], "bare").await;
    let limiter = limiter(&vendor.url(), "limits = [\"1000 / second\"]");
    let client = ApiClient::builder("test").limiter(&limiter);
    let client = client.refused_as(|response| {
        (response.status == StatusCode::TOO_MANY_REQUESTS).then_some(RefusalKind::NoAccess)
    });
    let client = client.build().unwrap();
    client.get("/").send().await.unwrap();
    let error = client.get("/").send().await.unwrap_err();
    assert!(matches!(error.failure, CallFailure::NoAccess) && error.attempts.len() == 1, "{error}");
    assert!(!error.is_retryable());
}

/// Bodies that cannot be sent again are not retried.
#[tokio::test]
async fn a_stream_is_sent_once() {
    // The vendor asks for up to an hour, which the call does not wait for.
    let vendor = vendor(&["1 / hour"], "http").await;
    let client = client(&vendor.url(), "rate = \"off\"\nlimits = [\"1000 / second\"]");
    let stream = || reqwest::Body::wrap(http_body_util::Full::new(bytes::Bytes::from("once")));
    client.post("/").body(stream()).send().await.unwrap();
    let error = client.post("/").body(stream()).send().await.unwrap_err();
    assert!(matches!(error.failure, CallFailure::CannotRepeat) && error.attempts.len() == 1, "{error}");
    assert_eq!(vendor.counts().refused, 1);
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_a_timeout() {
    let vendor = vendor_with(&["100 / second"], "http", |settings| {
        settings.terms.latency = (tollway_core::Span::from_secs(30), tollway_core::Span::from_secs(30));
    })
    .await;
    let client = client(&vendor.url(), "limits = [\"1000 / second\"]\ntimeout = \"300ms\"");
    let error = client.get("/").send().await.unwrap_err();
    assert!(matches!(error.failure, CallFailure::Timeout(_)), "{error}");
}

/// A call that could not be granted in time fails at once, and says when it could.
#[tokio::test]
async fn a_wait_beyond_the_budget_fails_at_once() {
    let vendor = vendor(&["100 / second"], "http").await;
    let client = client(&vendor.url(), "limits = [\"1 / hour from first call\"]");
    client.get("/").send().await.unwrap();
    let error = client.get("/").max_time(Duration::from_secs(2)).send().await.unwrap_err();
    assert!(matches!(error.failure, CallFailure::NoPermit(_)) && error.attempts.is_empty(), "{error}");
    assert!(error.retry_after().unwrap() > Duration::from_secs(2), "{error}");
}

/// G11: one metric tells the refusals of our limits from those of the vendor.
#[tokio::test]
async fn a_refusal_is_counted_as_ours_or_the_vendors() {
    let refusals = async |limiter: &tollway::Limiter| {
        let text = tollway::metrics::prometheus_text(&limiter.samples().await);
        let lines =
            text.lines().filter_map(|line| line.strip_prefix("tollway_refusals_total{api=\"test\",whose="));
        lines.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect::<Vec<_>>()
    };
    let generous = vendor(&["100 / second"], "http").await;
    let ours = limiter(&generous.url(), "limits = [\"hourly: 1 / hour from first call\"]");
    let client = ApiClient::of(&ours, "test").unwrap();
    client.get("/").send().await.unwrap();
    client.get("/").max_time(Duration::from_secs(2)).send().await.unwrap_err();
    assert_eq!(refusals(&ours).await, ["\"ours\",reason=\"hourly\"} 1"]);
    let strict = vendor(&["1 / day"], "bare").await;
    let vendors = limiter(&strict.url(), "rate = \"off\"\nlimits = [\"1000 / second\"]");
    let client = ApiClient::builder("test").limiter(&vendors).max_retries(0).build().unwrap();
    client.get("/").send().await.unwrap();
    client.get("/").max_time(Duration::from_secs(2)).send().await.unwrap_err();
    assert_eq!(refusals(&vendors).await, ["\"vendor\",reason=\"rate\"} 1"]);
}

/// G11: the last refusals are kept, each with the limit that denied it or what the vendor said.
#[tokio::test]
async fn a_refusal_is_kept_with_whose_it_was() {
    let kept = |limiter: &tollway::Limiter| {
        let api = limiter.api("test").unwrap();
        limiter
            .api_figures(api.name())
            .last_refusals()
            .into_iter()
            .map(|refusal| refusal.by)
            .collect::<Vec<_>>()
    };
    let generous = vendor(&["100 / second"], "http").await;
    let ours = limiter(&generous.url(), "limits = [\"hourly: 1 / hour from first call\"]");
    let client = ApiClient::of(&ours, "test").unwrap();
    client.get("/").send().await.unwrap();
    client.get("/").max_time(Duration::from_secs(2)).send().await.unwrap_err();
    let limit = Some("hourly".to_owned());
    assert_eq!(kept(&ours), [RefusedBy::OurLimit { policy: "test".to_owned(), limit }]);
    let strict = vendor(&["1 / day"], "bare").await;
    let vendors = limiter(&strict.url(), "rate = \"off\"\nlimits = [\"1000 / second\"]");
    let client = ApiClient::builder("test").limiter(&vendors).max_retries(0).build().unwrap();
    client.get("/").send().await.unwrap();
    let error = client.get("/").send().await.unwrap_err();
    let [RefusedBy::Vendor { kind: "rate", words, .. }] = &kept(&vendors)[..] else {
        panic!("{:?}", kept(&vendors));
    };
    assert_eq!(*words, error.attempts[0].said);
}

#[test]
fn options_keep_the_last_cost_of_a_unit() {
    let twice = CallOptions::new().cost("tokens", 1).unwrap().cost("tokens", 2).unwrap();
    assert_eq!(twice, CallOptions::new().cost("tokens", 2).unwrap());
    assert!(CallOptions::new().cost("", 1).is_err());
}

/// A wait beyond the budget fails at once under a rate, too.
#[tokio::test]
async fn a_wait_beyond_the_budget_fails_at_once_under_a_rate() {
    let vendor = vendor(&["100 / second"], "http").await;
    let client = client(&vendor.url(), "limits = [\"1 / hour from first call\"]\nrate = \"auto\"");
    client.get("/").send().await.unwrap();
    let error = client.get("/").max_time(Duration::from_secs(600)).send().await.unwrap_err();
    assert!(matches!(error.failure, CallFailure::NoPermit(_)) && error.attempts.is_empty(), "{error}");
}

/// A call is not sent before the vendor's wait is over, not even once more at the end of its time.
#[tokio::test]
async fn a_lock_that_lasts_longer_than_the_budget_is_a_refusal() {
    let vendor = vendor(&["1 / hour"], "http").await;
    let limiter = limiter(&vendor.url(), "limits = [\"1000 / second\"]");
    let client = ApiClient::builder("test").limiter(&limiter).refused_as(|response| {
        (response.status == StatusCode::TOO_MANY_REQUESTS).then_some(RefusalKind::Lock)
    });
    let client = client.build().unwrap();
    client.get("/").send().await.unwrap();
    let error = client.get("/").max_time(Duration::from_secs(5)).send().await.unwrap_err();
    assert!(matches!(error.failure, CallFailure::Refused) && error.attempts.len() == 1, "{error}");
    assert_eq!(vendor.counts().refused, 1);
}
