//! A storm is one event, and the queue has an end.

use std::time::Duration;

use tollway::incident::IncidentSink;
use tollway_notify::webhook::SendOptions;

use crate::webhook::receiver::Receiver;
use crate::webhook::{incident, quick, send_one, webhook};

const LONG: Duration = Duration::from_secs(600);
const WITHIN: Duration = Duration::from_secs(20);

/// A vendor that refuses a thousand calls is one message to the operators.
#[test]
fn storm_of_one_policy_is_one_event_with_a_count() {
    let receiver = Receiver::start(&[]);
    let webhook = webhook(receiver.port, SendOptions { merge_for: LONG, ..quick() });
    for number in 1..=1_000 {
        webhook.send(&incident("gemini", number));
    }
    webhook.send(&incident("notion", 2_000));
    assert!(webhook.flush(WITHIN), "the end of a program does not wait for more to merge");
    let received = receiver.wait_for(2);
    assert_eq!(received.len(), 2);
    let storm = received[0].json();
    assert_eq!((&storm["count"], &storm["incident"]["id"]), (&1_000.into(), &"0000000000000001".into()));
    assert_eq!(
        (&storm["first_at"], &storm["last_at"]),
        (&"2026-11-02T14:05:01Z".into(), &"2026-11-02T14:21:40Z".into())
    );
    assert_eq!((&received[1].json()["count"], webhook.dropped()), (&1.into(), 0));
}

#[test]
fn storm_that_goes_on_is_told_at_intervals() {
    let receiver = Receiver::start(&[]);
    let webhook = webhook(receiver.port, SendOptions { repeat_after: LONG, ..quick() });
    send_one(&webhook, "gemini", 1);
    (2..=10).for_each(|number| webhook.send(&incident("gemini", number)));
    webhook.send(&incident("notion", 20));
    let policies: Vec<_> =
        receiver.wait_for(2).iter().map(|one| one.json()["incident"]["policy"].clone()).collect();
    assert_eq!(policies, ["gemini", "notion"], "the rest of the storm is held back, other policies are not");
    assert!(webhook.flush(WITHIN));
    assert_eq!(receiver.wait_for(3)[2].json()["count"], 9);
}

#[test]
fn queue_is_bounded_and_counts_what_it_drops() {
    let receiver = Receiver::start(&[]);
    let webhook = webhook(receiver.port, SendOptions { merge_for: LONG, waiting_max: 3, ..quick() });
    for number in 1..=5 {
        webhook.send(&incident(&format!("policy-{number}"), number));
    }
    webhook.send(&incident("policy-1", 6));
    assert_eq!(webhook.dropped(), 2);
    assert!(webhook.flush(WITHIN));
    let counts: Vec<_> = receiver.wait_for(3).iter().map(|one| one.json()["count"].clone()).collect();
    assert_eq!(counts, [2, 1, 1]);
}
