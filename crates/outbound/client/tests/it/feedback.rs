//! What a vendor's answers change: holds, rates and what is left of limits.

use std::time::Duration;

use tollway::core::{Feedback, LearnedRate};
use tollway::{Limiter, Span};
use tollway_client::{ApiClient, CallFailure, RefusalKind};
use tollway_vendor::server::VendorSettings;

use crate::{client, limiter, vendor, vendor_with};

async fn rate(limiter: &Limiter) -> LearnedRate {
    limiter.feedback("test", Feedback::default()).await.unwrap().rate.unwrap()
}

/// Waits until the rate is this, in millionths; a report may take a second.
async fn until_rate(limiter: &Limiter, wanted: u64) {
    let mut last = 0;
    for _ in 0..300 {
        last = rate(limiter).await.rate;
        if last == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the rate is {last}, not {wanted}");
}

/// D1, D5: one client's refusal holds all that share the store.
#[tokio::test]
async fn a_refusal_holds_everybody() {
    let vendor = vendor(&["1 / minute"], "http").await;
    let limiter = limiter(&vendor.url(), "limits = [\"1000 / second\"]");
    let [one, other] = [(); 2].map(|()| ApiClient::of(&limiter, "test").unwrap());
    one.get("/").send().await.unwrap();
    one.get("/").max_retries(0).send().await.unwrap_err();
    let error = other.get("/").max_time(Duration::from_millis(500)).send().await.unwrap_err();
    let CallFailure::NoPermit(denied) = &error.failure else { panic!("{error}") };
    assert!(denied.denied().unwrap().held(), "{error}");
    assert!(other.limiter().snapshot().await.unwrap().cooldown_until.is_some());
    assert_eq!(vendor.counts().refused, 1);
}

/// D1: n successes add n steps, however many are reported together.
#[tokio::test]
async fn every_success_adds_a_step() {
    let vendor = vendor(&["1000 / second"], "http").await;
    let keys = "rate = { initial = 100, min = 1, max = 200, increase_step = 0.5, decrease_factor = 0.5 }";
    let limiter = limiter(&vendor.url(), keys);
    let client = ApiClient::of(&limiter, "test").unwrap();
    for _ in 0..8 {
        client.get("/").send().await.unwrap();
    }
    until_rate(&limiter, 104_000_000).await;
}

/// D1, B5: refusals of calls that were sent before the cut do not cut again.
#[tokio::test]
async fn a_burst_of_refusals_cuts_once() {
    let slow = |settings: &mut VendorSettings| {
        settings.terms.latency = (Span::from_millis(600), Span::from_millis(600));
    };
    let vendor = vendor_with(&["1 / hour"], "http", slow).await;
    let keys = "rate = { initial = 100, min = 1, max = 200, increase_step = 0.000001, decrease_factor = 0.5 }\nmax_retries = 0";
    let limiter = limiter(&vendor.url(), keys);
    let client = ApiClient::of(&limiter, "test").unwrap();
    let calls = (0..8).map(|_| tokio::spawn(client.get("/").send()));
    let mut refused = 0;
    for call in calls.collect::<Vec<_>>() {
        refused += usize::from(call.await.unwrap().is_err());
    }
    let learned = rate(&limiter).await;
    assert_eq!((refused, learned.cut), (7, 1));
    assert!((50_000_000..50_000_010).contains(&learned.rate), "{}", learned.rate);
}

/// D1: the three Notion refusals after which the documented design never answers again. Ours does.
#[tokio::test]
async fn three_refusals_do_not_hang_a_slow_rate() {
    let vendor = vendor(&["1 / day"], "bare").await;
    let keys = "rate = { initial = 2.0, min = 0.3, max = 3.5, increase_step = 0.1, decrease_factor = 0.5 }";
    let limiter = limiter(&vendor.url(), keys);
    let client = ApiClient::of(&limiter, "test").unwrap();
    client.get("/").send().await.unwrap();
    let call = tokio::spawn(client.get("/").send());
    while vendor.counts().refused < 3 {
        assert!(!call.is_finished());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    vendor.set_quotas(VendorSettings::new(["100 / second"]).unwrap().terms.quotas);
    assert_eq!(call.await.unwrap().unwrap().status(), 200);
    assert!((300_000..=400_000).contains(&rate(&limiter).await.rate));
}

/// D2: a vendor's own error says nothing about the rate.
#[tokio::test]
async fn other_server_errors_neither_raise_nor_cut() {
    let vendor = vendor_with(&["1000 / second"], "http", |settings| settings.terms.errors = 1_000).await;
    let keys = "rate = { initial = 100, min = 1, max = 200, increase_step = 1, decrease_factor = 0.5 }";
    let limiter = limiter(&vendor.url(), keys);
    let client = ApiClient::of(&limiter, "test").unwrap();
    for _ in 0..3 {
        assert_eq!(client.get("/").send().await.unwrap().status(), 500);
    }
    client.limiter().flush().await;
    let learned = rate(&limiter).await;
    assert_eq!((vendor.counts().failed, learned.rate, learned.cut), (3, 100_000_000, 0));
}

/// D2: every backoff code is obeyed, and only a rate's refusal cuts the rate.
#[tokio::test]
async fn backoff_codes_are_retried() {
    let vendor = vendor_with(&["1000 / second"], "http", |settings| settings.terms.errors = 1_000).await;
    let keys = "rate = { initial = 100, min = 1, max = 200, increase_step = 1, decrease_factor = 0.5 }\n\
                backoff_codes = [429, 500]\nmax_retries = 1";
    let limiter = limiter(&vendor.url(), keys);
    let client = ApiClient::of(&limiter, "test").unwrap();
    let error = client.get("/").send().await.unwrap_err();
    assert!(matches!(error.failure, CallFailure::Refused) && error.attempts.len() == 2, "{error}");
    assert_eq!(rate(&limiter).await.rate, 25_000_000);
}

/// A vendor that refuses inside a 200.
#[tokio::test]
async fn a_hook_finds_refusals_in_a_success() {
    let vendor = vendor(&["1000 / second"], "http").await;
    let limiter = limiter(&vendor.url(), "limits = [\"1000 / second\"]");
    let client = ApiClient::builder("test").limiter(&limiter).max_retries(0);
    let client = client.refused_as(|response| {
        (response.status.is_success() && !response.body.is_empty()).then_some(RefusalKind::DailyQuota)
    });
    let error = client.build().unwrap().get("/").send().await.unwrap_err();
    assert_eq!(error.refusal(), Some(RefusalKind::DailyQuota), "{error}");
}

/// B5: what the vendor says is left lowers a limit of the same unit and period, before it refuses.
#[tokio::test]
async fn quotas_in_headers_lower_a_limit() {
    let vendor = vendor(&["3 / hour"], "ietf").await;
    let limiter = limiter(&vendor.url(), "limits = [\"1000 / hour\"]");
    let client = ApiClient::of(&limiter, "test").unwrap();
    let mut granted = 0;
    while client.get("/").max_time(Duration::from_millis(1_500)).max_retries(0).send().await.is_ok() {
        granted += 1;
        // The report goes to the store in the background.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((granted, vendor.counts().refused), (3, 0));
}

/// A quota of a day is waited for as long as it lasts, not as long as the vendor says.
#[tokio::test]
async fn a_daily_quota_is_held_until_its_end() {
    let vendor = vendor(&["1 / day in America/Los_Angeles"], "gemini").await;
    let client = client(&vendor.url(), "dialect = \"gemini\"\nlimits = [\"1000 / second\"]");
    let call = || client.post("/v1beta/models/pro:generateContent").body("{}");
    call().send().await.unwrap();
    let error = call().send().await.unwrap_err();
    assert_eq!(error.refusal(), Some(RefusalKind::DailyQuota), "{error}");
    assert_eq!(error.attempts.len(), 1, "the budget is ten minutes: {error}");
    let left = client.limiter().snapshot().await.unwrap();
    assert!(left.cooldown_until.unwrap() > left.now);
}

/// D2: neither an outage, nor an expired token, nor a 404 raises a rate that is being found.
#[tokio::test]
async fn auto_grows_by_successes_only() {
    let vendor = vendor_with(&["1000 / second"], "http", |settings| settings.terms.errors = 1_000).await;
    let limiter = limiter(&vendor.url(), "rate = \"auto\"");
    let client = ApiClient::of(&limiter, "test").unwrap();
    let start = rate(&limiter).await.rate;
    for _ in 0..12 {
        assert_eq!(client.get("/").send().await.unwrap().status(), 500);
    }
    client.limiter().flush().await;
    let learned = rate(&limiter).await;
    assert_eq!((learned.rate, learned.cut), (start, 0));
}

/// Calls refused because too many run at the same time find out how many fit, and hold no other call back.
#[tokio::test]
async fn concurrency_refusals_find_how_many_calls_fit() {
    let slow = |settings: &mut VendorSettings| {
        settings.terms.latency = (Span::from_millis(20), Span::from_millis(30));
    };
    let vendor = vendor_with(&["1000 / second", "3 concurrent"], "stripe", slow).await;
    let client =
        client(&vendor.url(), "limits = [\"1000 / second\"]\ndialect = \"stripe\"\nmax_retries = 20");
    let calls = (0..60).map(|_| tokio::spawn(client.get("/").send()));
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    let refused = vendor.counts().refused;
    assert!(refused > 0, "the calls did not overlap");
    for _ in 0..3 {
        let calls = (0..20).map(|_| tokio::spawn(client.get("/").send()));
        for call in calls.collect::<Vec<_>>() {
            assert_eq!(call.await.unwrap().unwrap().status(), 200);
        }
    }
    assert_eq!(vendor.counts().refused, refused, "the number in flight was found");
}

/// Calls that their callers leave use nothing of what may be in flight at the start, and neither do those that get no
/// connection.
#[tokio::test]
async fn calls_without_an_answer_do_not_stop_the_start() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let left = client(&url, "rate = \"auto\"");
    let mut unanswered = Vec::new();
    for _ in 0..6 {
        let call = tokio::spawn(left.get("/").max_time(Duration::from_secs(50)).send());
        unanswered.push(listener.accept().await.unwrap());
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    drop(listener);
    let nothing = client(&url, "rate = \"auto\"");
    for _ in 0..6 {
        let error = nothing.get("/").max_time(Duration::from_secs(50)).send().await.unwrap_err();
        assert!(matches!(error.failure, CallFailure::Send(_)), "{error}");
    }
}
