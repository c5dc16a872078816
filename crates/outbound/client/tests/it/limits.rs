//! Endpoints, costs, slots, priorities and accounts.

use std::time::Duration;

use tollway::Span;
use tollway_client::{ApiClient, CallFailure, Priority};

use crate::{client, limiter, limiter_of, vendor, vendor_with};

/// D5: an endpoint has a policy of its own beside the api's, and does not hold up other calls.
#[tokio::test]
async fn an_endpoint_has_its_own_limit() {
    let vendor = vendor(&["1000 / second"], "http").await;
    let limiter = limiter_of(&format!(
        "[policies.search]\nlimits = [\"1 / hour\"]\n[apis.test]\nbase_url = \"{}\"\nlimits = [\"100 / hour\"]\n\
         endpoints = [{{ match = \"POST /search\", policy = \"search\" }}]",
        vendor.url()
    ));
    let client = ApiClient::of(&limiter, "test").unwrap();
    let soon = Duration::from_secs(2);
    client.post("/search").send().await.unwrap();
    let error = client.post("/search").max_time(soon).send().await.unwrap_err();
    assert!(matches!(error.failure, CallFailure::NoPermit(_)), "{error}");
    client.get("/search").max_time(soon).send().await.unwrap();
    let used = |policy| {
        let usage = limiter.usage(policy);
        async { usage.await.unwrap().limits[0].used }
    };
    assert_eq!(
        (used("search").await, used("test").await),
        (1, 2),
        "a denied call takes nothing from the api"
    );
}

/// D5: the cost of a call is part of its body's length, unless the caller knows better.
#[tokio::test]
async fn a_cost_is_estimated_from_the_body() {
    let vendor = vendor(&["1000 / second"], "http").await;
    let limiter =
        limiter(&vendor.url(), "limits = [\"10k tokens / hour\"]\ncost = { tokens = \"bytes / 4 + 10\" }");
    let client = ApiClient::of(&limiter, "test").unwrap();
    let used = async || limiter.usage("test").await.unwrap().limits[0].used;
    client.post("/").body("x".repeat(400)).send().await.unwrap();
    assert_eq!(used().await, 110);
    client.post("/").body("x".repeat(400)).cost("tokens", 5).send().await.unwrap();
    assert_eq!(used().await, 115);
    let error = client.post("/").cost("token", 5).send().await.unwrap_err();
    assert!(error.to_string().contains("no limit of api test counts token"), "{error}");
}

/// D5: no more calls at the same time than the api allows.
#[tokio::test]
async fn calls_in_flight_are_limited() {
    let slow = |settings: &mut tollway_vendor::server::VendorSettings| {
        settings.terms.latency = (Span::from_millis(30), Span::from_millis(60));
    };
    let vendor = vendor_with(&["2 concurrent", "1000 / second"], "stripe", slow).await;
    let client = client(&vendor.url(), "limits = [\"1000 / second\"]\nconcurrency = 2");
    // A slot is free when the body has been read.
    let call = || {
        let call = client.get("/").send();
        tokio::spawn(async { call.await.unwrap().bytes().await.unwrap() })
    };
    for call in (0..12).map(|_| call()).collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert_eq!((vendor.counts().accepted, vendor.counts().refused), (12, 0));
}

/// D5: an urgent call overtakes those of its process that wait.
#[tokio::test]
async fn an_urgent_call_goes_first() {
    let vendor = vendor(&["1000 / second"], "http").await;
    let client = client(&vendor.url(), "limits = [\"2 / second paced\"]");
    client.get("/").send().await.unwrap();
    // Calls of the next second are booked; the others wait in the process.
    let low = || client.get("/low").priority(Priority::Low).send();
    let calls: Vec<_> = (0..6).map(|_| tokio::spawn(low())).collect();
    while client.limiter().snapshot().await.unwrap().waiting < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let urgent = tokio::spawn(client.get("/urgent").priority(Priority::High).send());
    urgent.await.unwrap().unwrap();
    let done = calls.iter().filter(|call| call.is_finished()).count();
    assert!(done < 5, "{done} of 6 calls that came before have been sent");
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

/// D5: accounts at one vendor have budgets and holds of their own.
#[tokio::test]
async fn accounts_do_not_share() {
    let vendor = vendor(&["1000 / second"], "http").await;
    let limiter = limiter(&vendor.url(), "limits = [\"1 / hour\"]");
    let account = |name| ApiClient::builder("test").limiter(&limiter).account(name).build().unwrap();
    let soon = Duration::from_secs(2);
    for name in ["one", "two"] {
        account(name).get("/").max_time(soon).send().await.unwrap();
        account(name).get("/").max_time(soon).send().await.unwrap_err();
    }
    assert!(ApiClient::builder("test").limiter(&limiter).account("").build().is_ok());
}

/// D5: a program estimates costs itself.
#[tokio::test]
async fn a_cost_is_estimated_by_a_function() {
    let vendor = vendor(&["1000 / second"], "http").await;
    let limiter = limiter(&vendor.url(), "limits = [\"10k tokens / hour\"]\ncost = { tokens = 1 }");
    let client = ApiClient::builder("test").limiter(&limiter);
    let client = client.cost_from(|call| {
        let words = call.body.map_or(0, |body| body.split(|byte| *byte == b' ').count());
        vec![("tokens".to_owned(), u64::try_from(words).unwrap())]
    });
    client.build().unwrap().post("/").body("five words of a body").send().await.unwrap();
    assert_eq!(limiter.usage("test").await.unwrap().limits[0].used, 5);
}
