//! Retries, order, and what is given up.

use std::net::TcpListener;
use std::time::Duration;

use tokio::time::Instant;
use tollway::incident::IncidentSink;
use tollway_notify::webhook::SendOptions;

use crate::webhook::receiver::Receiver;
use crate::webhook::{incident, quick, send_one, webhook};

/// G11: sent to operators, although the receiver fails at first, in order, each with the same id.
#[test]
fn failed_requests_are_repeated_in_order() {
    let receiver = Receiver::start(&["500 Oops", "503 Busy"]);
    let webhook = webhook(receiver.port, quick());
    send_one(&webhook, "gemini", 1);
    send_one(&webhook, "notion", 2);
    let received = receiver.wait_for(4);
    let ids: Vec<&str> = received.iter().map(|request| &request.headers["tollway-id"][15..]).collect();
    assert_eq!(ids, ["1", "1", "1", "2"]);
    let first = &received[0];
    assert_eq!((first.path.as_str(), first.headers["tollway-event"].as_str()), ("/hook?a=b", "incident"));
    assert_eq!(first.headers["content-type"], "application/json");
    let body = first.json();
    assert_eq!(
        (&body["event"], &body["count"], &body["id"]),
        (&"incident".into(), &1.into(), &"0000000000000001".into())
    );
    assert_eq!((&body["first_at"], &body["first_at"]), (&"2026-11-02T14:05:01Z".into(), &body["last_at"]));
    assert_eq!(body["incident"], serde_json::to_value(&*incident("gemini", 1)).unwrap());
    assert_eq!(webhook.dropped(), 0);
}

/// The longest wait counts, and a receiver cannot ask for more than a minute; then the event would be given up.
#[test]
fn retry_after_is_obeyed_and_capped() {
    let receiver = Receiver::start(&["429 Slow\r\nRetry-After: 1"]);
    let begun = Instant::now();
    send_one(&webhook(receiver.port, quick()), "gemini", 1);
    assert_eq!(receiver.wait_for(2).len(), 2);
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());

    let receiver = Receiver::start(&["503 Busy\r\nRetry-After: 3600"]);
    let capped = SendOptions { give_up_after: Duration::from_secs(61), ..quick() };
    let waiting = webhook(receiver.port, capped);
    waiting.send(&incident("gemini", 1));
    receiver.wait_for(1);
    assert!(!waiting.flush(Duration::from_millis(300)), "it waits for a minute, and would give up an hour");
    let given_up = SendOptions { give_up_after: Duration::from_secs(59), ..quick() };
    let receiver = Receiver::start(&["503 Busy\r\nRetry-After: 3600"]);
    let webhook = webhook(receiver.port, given_up);
    send_one(&webhook, "gemini", 1);
    assert_eq!((webhook.dropped(), receiver.wait_for(1).len()), (1, 1));
}

#[test]
fn rejections_and_redirects_are_final() {
    let elsewhere = Receiver::start(&[]);
    let moved = format!("307 Moved\r\nLocation: http://127.0.0.1:{}/", elsewhere.port);
    let receiver = Receiver::start(&["400 Wrong", &moved]);
    let webhook = webhook(receiver.port, quick());
    send_one(&webhook, "gemini", 1);
    send_one(&webhook, "notion", 2);
    assert_eq!((webhook.dropped(), receiver.wait_for(2).len()), (2, 2));
    assert_eq!(elsewhere.wait_for(0).len(), 0);
}

#[test]
fn tries_are_bounded() {
    let receiver = Receiver::start(&["500 Oops"; 5]);
    let webhook = webhook(receiver.port, SendOptions { tries: 3, ..quick() });
    send_one(&webhook, "gemini", 1);
    assert_eq!((webhook.dropped(), receiver.wait_for(3).len()), (1, 3));
}

#[test]
fn unreachable_receiver_is_tried_again() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let webhook = webhook(closed, SendOptions { tries: 2, ..quick() });
    send_one(&webhook, "gemini", 1);
    assert_eq!(webhook.dropped(), 1);
}
