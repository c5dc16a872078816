//! Alarms that begin and end in quick succession: the receiver always learns the last state.

use std::time::Duration;

use serde_json::Value;
use tollway::Timestamp;
use tollway::config::TopicConfig;
use tollway::incident::IncidentSink;
use tollway_notify::webhook::{Event, EventSender, SendOptions};
use tollway_testkit::servers::{CapturedAnswer, CapturingServer};

use crate::webhook::receiver::Receiver;
use crate::webhook::{incident, quick, sns, webhook};

const LONG: Duration = Duration::from_secs(600);
const WITHIN: Duration = Duration::from_secs(60);

fn event(kind: &'static str, number: u64) -> Event {
    let at = Timestamp::from_secs(1_793_628_300 + number);
    Event {
        kind,
        group: "serve/fallback".to_owned(),
        id: format!("{number:016x}"),
        first_at: at,
        last_at: at,
        count: 1,
        detail: Value::Null,
    }
}

/// Two outages within the time between two events of one alarm; the first alarm is told at once.
fn two_outages(sender: &EventSender, told: impl Fn() -> bool) {
    sender.send_event(event("alarm", 1));
    while !told() {
        std::thread::sleep(Duration::from_millis(20));
    }
    for (number, kind) in [(2, "alarm_over"), (3, "alarm"), (4, "alarm_over")] {
        sender.send_event(event(kind, number));
    }
    assert!(sender.flush(WITHIN));
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

/// G8: two short outages within a minute end with `alarm over`, on a webhook.
#[test]
fn last_state_of_an_alarm_reaches_the_webhook() {
    let receiver = Receiver::start(&[]);
    let sender = webhook(receiver.port, SendOptions { repeat_after: LONG, ..quick() });
    two_outages(&sender, || receiver.wait_for(1).len() == 1);
    let events: Vec<Value> = receiver.wait_for(3).iter().map(|request| request.json()).collect();
    assert_eq!(kinds(&events), ["alarm", "alarm", "alarm_over"]);
    assert_eq!((&events[1]["count"], &events[2]["count"]), (&1.into(), &2.into()));
    assert_eq!((&events[2]["last_at"], sender.dropped()), (&"2026-11-02T14:05:04Z".into(), 0));
}

/// G8: the same over SNS, in the order in which events are published.
#[test]
fn last_state_of_an_alarm_reaches_the_topic() {
    let answer = |_: &_| CapturedAnswer::new("200 OK\r\nContent-Type: text/xml", sns::PUBLISHED);
    let server = CapturingServer::start(answer);
    let topic = TopicConfig::new("arn:aws:sns:us-east-1:000000000000:alerts").unwrap();
    let options = SendOptions { repeat_after: LONG, ..quick() };
    let sender = EventSender::topic_at(&topic, sns::connect(&server.endpoint()), options);
    two_outages(&sender, || server.requests().len() == 1);
    let told: Vec<bool> =
        server.requests().iter().map(|request| request.text().contains("alarm_over")).collect();
    assert_eq!((told, sender.dropped()), (vec![false, false, true], 0));
}

/// An alarm that comes and goes all the time is two events, whose last one is the last state.
#[test]
fn alarm_that_flaps_is_told_once_with_its_last_state() {
    for (times, last) in [(20, "alarm_over"), (21, "alarm")] {
        let receiver = Receiver::start(&[]);
        let sender = webhook(receiver.port, SendOptions { merge_for: LONG, ..quick() });
        for number in 1..=times {
            sender.send_event(event(if number % 2 == 1 { "alarm" } else { "alarm_over" }, number));
        }
        assert!(sender.flush(WITHIN));
        let events: Vec<Value> = receiver.wait_for(2).iter().map(|request| request.json()).collect();
        assert_eq!((events.len(), events[1]["event"].as_str()), (2, Some(last)));
        let told: u64 = events.iter().map(|event| event["count"].as_u64().unwrap()).sum();
        assert_eq!(told, times);
    }
}

/// A receiver that was away for longer than an event is tried hears the end of an alarm when it is back.
#[test]
fn end_of_an_alarm_is_tried_until_the_receiver_is_back() {
    let receiver = Receiver::start(&["503 Away"; 4]);
    let sender = webhook(receiver.port, SendOptions { tries: 2, ..quick() });
    sender.send_event(event("alarm_over", 1));
    let received = receiver.wait_for(5);
    assert!(received.iter().all(|request| request.headers["tollway-event"] == "alarm_over"));
    assert!(sender.flush(WITHIN));
    assert_eq!((receiver.wait_for(5).len(), sender.dropped()), (5, 0));
}

/// A full queue makes room for the end of an alarm: an incident is in `tollway incidents` all the same.
#[test]
fn full_queue_makes_room_for_the_end_of_an_alarm() {
    let receiver = Receiver::start(&[]);
    let sender = webhook(receiver.port, SendOptions { merge_for: LONG, waiting_max: 3, ..quick() });
    for number in 1..=3 {
        sender.send(&incident(&format!("policy-{number}"), number));
    }
    sender.send_event(event("alarm_over", 4));
    sender.send(&incident("policy-5", 5));
    assert_eq!(sender.dropped(), 2);
    assert!(sender.flush(WITHIN));
    let told = receiver.wait_for(3);
    let kinds: Vec<&str> = told.iter().map(|request| request.headers["tollway-event"].as_str()).collect();
    assert_eq!(kinds, ["incident", "incident", "alarm_over"]);
}
