//! Decisions over HTTP: limits, counts, concurrency, errors, and the end.

use http::{Method, StatusCode};
use tollway_core::{Clock, Span, Timestamp};
use tollway_memory::WallClock;
use tollway_vendor::server::{SettingsError, VendorServer, VendorSettings};
use tollway_vendor::{Outcome, Quota, Shape, Terms};

use crate::client::{get, hour, send, settings, start, wait_until};

const OK: StatusCode = StatusCode::OK;
const REFUSED: StatusCode = StatusCode::TOO_MANY_REQUESTS;

/// Every call is counted when it is decided, with the machine's time.
#[tokio::test]
async fn calls_above_the_limit_are_refused_and_logged() {
    let before = WallClock.now();
    let vendor = start(&["5 / hour"]).await;
    let mut statuses = Vec::new();
    for _ in 0..7 {
        statuses.push(get(&vendor).await);
    }
    assert_eq!(statuses, [OK, OK, OK, OK, OK, REFUSED, REFUSED]);
    let counts = vendor.counts();
    assert_eq!((counts.accepted, counts.refused, counts.failed), (5, 2, 0));
    let after = WallClock.now().plus(Span::from_micros(1));
    assert_eq!(vendor.count_between(Outcome::Accepted, before, after), 5);
    assert_eq!(vendor.count_between(Outcome::Refused, before, after), 2);
    assert_eq!(vendor.count_between(Outcome::Accepted, after, Timestamp::MAX), 0);
    let calls = vendor.calls();
    assert_eq!(calls.len(), 7);
    assert!(calls.iter().all(|call| (before..after).contains(&call.at)), "{calls:?}");
}

#[tokio::test]
async fn every_method_and_path_answers() {
    let vendor = start(&["100 / hour"]).await;
    for (method, path) in [
        (Method::GET, "/"),
        (Method::PUT, "/v1/pages/1"),
        (Method::DELETE, "/a/b?c=d"),
        (Method::PATCH, "/v1/x"),
        (Method::POST, "/v1/databases"),
    ] {
        let got = send(&vendor, method.clone(), path, "12345").await;
        let answer = got.json();
        assert_eq!(got.status, OK);
        assert_eq!(answer["method"], method.as_str());
        assert_eq!(answer["path"], path.split('?').next().unwrap());
        assert_eq!(answer["received_bytes"], 5);
    }
    assert_eq!(send(&vendor, Method::HEAD, "/x", "").await.body, b"");
    // Two tokens for five bytes.
    assert_eq!((vendor.counts().accepted, vendor.counts().tokens), (6, 10));
    let counts = send(&vendor, Method::GET, "/_vendor/counts", "").await.json();
    assert_eq!((&counts["accepted"], &counts["refused"]), (&6.into(), &0.into()));
    assert_eq!(vendor.counts().accepted, 6, "asking for the counts does not count");
}

#[tokio::test]
async fn unreadable_request_is_not_counted() {
    let vendor = start(&["100 / hour"]).await;
    let got = send(&vendor, Method::POST, "/v1/x", vec![b'x'; (1 << 20) + 1]).await;
    assert_eq!(got.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(got.json()["error"]["message"].as_str().unwrap().contains("1048576"));
    assert_eq!(vendor.counts(), Default::default());
    assert_eq!(send(&vendor, Method::POST, "/v1/x", vec![b'x'; 1 << 20]).await.status, OK);
}

#[tokio::test]
async fn quotas_change_at_once_and_keep_what_was_used() {
    let (settings, now) = settings(&["3 / hour"]);
    let vendor = VendorServer::start(settings).await.unwrap();
    assert_eq!([get(&vendor).await, get(&vendor).await], [OK, OK]);
    let window =
        |amount| Quota::calls(Shape::Window { amount, length: hour(), phase: now.since(Timestamp::EPOCH) });
    vendor.set_quotas(vec![window(2)]);
    assert_eq!(get(&vendor).await, REFUSED);
    vendor.set_quotas(vec![window(3)]);
    assert_eq!([get(&vendor).await, get(&vendor).await], [OK, REFUSED]);
    vendor.set_quotas(Vec::new());
    assert_eq!(get(&vendor).await, OK);
}

/// A limit that changes at a time of the machine's clock, which has passed here.
#[tokio::test]
async fn later_limit_is_in_force_from_its_time_on() {
    let (mut settings, now) = settings(&["5 / hour"]);
    let phase = now.since(Timestamp::EPOCH);
    let start = tollway_vendor::WindowStart { phase, now };
    settings.terms.change_limit(now, "1 / hour", start).unwrap();
    settings.terms.change_limit(now.plus(hour()), "9 / hour", start).unwrap();
    let vendor = VendorServer::start(settings).await.unwrap();
    assert_eq!([get(&vendor).await, get(&vendor).await], [OK, REFUSED]);
}

#[tokio::test]
async fn refusals_count_on_request() {
    let (mut settings, now) = settings(&["2 / hour"]);
    settings.terms.refusals_count = true;
    let vendor = VendorServer::start(settings).await.unwrap();
    for _ in 0..4 {
        get(&vendor).await;
    }
    let phase = now.since(Timestamp::EPOCH);
    vendor.set_quotas(vec![Quota::calls(Shape::Window { amount: 4, length: hour(), phase })]);
    assert_eq!(get(&vendor).await, REFUSED, "two accepted and two refused calls used up four");
}

/// The same seed fails the same calls.
#[tokio::test]
async fn errors_follow_the_seed_and_count() {
    let statuses = async |seed| {
        let (mut settings, _) = settings(&["1000 / hour"]);
        (settings.seed, settings.terms.errors) = (seed, 500);
        let vendor = VendorServer::start(settings).await.unwrap();
        let mut statuses = Vec::new();
        for _ in 0..40 {
            statuses.push(get(&vendor).await.as_u16());
        }
        assert_eq!(vendor.counts().accepted + vendor.counts().failed, 40);
        statuses
    };
    let first = statuses(7).await;
    assert!(first.contains(&200) && first.contains(&500), "{first:?}");
    assert_eq!(first, statuses(7).await);
    assert_ne!(first, statuses(8).await);
}

/// Both calls are decided a second after they arrive, and run for another second.
#[tokio::test]
async fn calls_at_the_same_time_are_bounded() {
    let (mut settings, _) = settings(&["1 concurrent"]);
    let latency = Span::from_secs(2);
    settings.terms = Terms { latency: (latency, latency), ..settings.terms };
    let vendor = VendorServer::start(settings).await.unwrap();
    let (first, second) = tokio::join!(get(&vendor), get(&vendor));
    let mut statuses = [first.as_u16(), second.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 429]);
    assert_eq!(get(&vendor).await, OK, "the slot of an answered call is free");
}

/// A call whose client hangs up before the answer gives its slot back.
#[tokio::test]
async fn client_that_hangs_up_frees_its_slot() {
    let (mut settings, _) = settings(&["1 concurrent"]);
    let latency = Span::from_millis(400);
    settings.terms = Terms { latency: (latency, latency), ..settings.terms };
    let vendor = VendorServer::start(settings).await.unwrap();
    let gone = tokio::time::timeout(std::time::Duration::from_millis(300), get(&vendor)).await;
    drop(gone);
    wait_until("the slot is free", async || get(&vendor).await == OK).await;
}

#[tokio::test]
async fn stop_lets_calls_in_flight_finish_and_drop_does_not() {
    let (mut settings, _) = settings(&["10 / hour"]);
    settings.terms.latency = (Span::from_secs(1), Span::from_secs(1));
    let vendor = VendorServer::start(settings.clone()).await.unwrap();
    let address = vendor.address().to_string();
    let call = tokio::spawn({
        let address = address.clone();
        async move { crate::client::send_to(&address, Method::GET, "/", Default::default()).await.status }
    });
    wait_until("the call is decided", async || vendor.counts().accepted == 1).await;
    assert_eq!(vendor.stop().await.accepted, 1);
    assert_eq!(call.await.unwrap(), OK);
    assert!(tokio::net::TcpStream::connect(&address).await.is_err());

    let vendor = VendorServer::start(settings).await.unwrap();
    let address = vendor.address();
    drop(vendor);
    wait_until("the port is closed", async || tokio::net::TcpStream::connect(address).await.is_err()).await;
}

#[test]
fn wrong_settings_say_what_to_write() {
    let error = VendorSettings::new(["5 / hour"]).unwrap().dialect("nobody").unwrap_err();
    assert_eq!(error, SettingsError::UnknownDialect("nobody".to_owned()));
    assert!(error.to_string().contains("use one of http, bare, ietf"), "{error}");
    let error = VendorSettings::new(["5 apples / hour"]).unwrap_err();
    assert!(error.to_string().contains("`requests` and `tokens`"), "{error}");
}
