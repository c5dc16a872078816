//! Incidents and alarms through a topic of SNS to a queue behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use serde_json::Value;
use tollway::config::TopicConfig;
use tollway::core::{Answer, Fault, Operation, Retry};
use tollway::incident::IncidentSink;
use tollway::{Limiter, Span, Store, StoreError, Timestamp};
use tollway_aws::{Access, Connect};
use tollway_memory::MemoryStore;
use tollway_notify::webhook::{EventSender, SendOptions, StoreAlarmWatch};
use tollway_testkit::ManualClock;
use tollway_testkit::servers::{CapturedAnswer, CapturingServer, Ministack};

use crate::webhook::{incident, quick};

const WITHIN: Duration = Duration::from_secs(60);

fn sender(server: &Ministack, name: &str, options: SendOptions) -> EventSender {
    let topic = TopicConfig::new(&server.topic_with_queue(name)).unwrap();
    EventSender::topic_at(&topic, connect(&server.endpoint()), options)
}

pub(super) fn connect(endpoint: &str) -> Connect {
    let access = Access { key: "test".to_owned(), secret: "test".to_owned() };
    Connect { endpoint: Some(endpoint.to_owned()), access: Some(access), ..Connect::default() }
}

fn events(server: &Ministack, queue: &str) -> Vec<Value> {
    server.take_messages(queue).iter().map(|body| serde_json::from_str(body).unwrap()).collect()
}

/// G11: operators get an incident over SNS, with its evidence; a storm is one message.
#[test]
fn incident_reaches_a_queue_behind_the_topic() {
    let server = Ministack::shared();
    let sender = sender(server, "incidents", SendOptions { merge_for: Duration::from_secs(600), ..quick() });
    assert_eq!(sender.name(), "sns");
    (1..=100).for_each(|number| sender.send(&incident("gemini", number)));
    assert!(sender.flush(WITHIN));
    let events = events(server, "incidents");
    let [event] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&event["event"], &event["count"]), (&"incident".into(), &100.into()));
    assert_eq!(event["incident"], serde_json::to_value(&*incident("gemini", 1)).unwrap());
    assert_eq!(sender.dropped(), 0);
}

/// A topic that does not exist is not asked again and again.
#[test]
fn event_for_a_missing_topic_is_dropped_and_counted() {
    let server = Ministack::shared();
    let topic = TopicConfig::new("arn:aws:sns:us-east-1:000000000000:not-made").unwrap();
    let sender = EventSender::topic_at(
        &topic,
        connect(&server.endpoint()),
        SendOptions { backoff: Duration::from_secs(600), ..quick() },
    );
    sender.send(&incident("gemini", 1));
    assert!(sender.flush(WITHIN));
    assert_eq!(sender.dropped(), 1);
}

/// SNS that fails for a moment gets the event all the same.
#[test]
fn event_is_sent_again_until_sns_takes_it() {
    let asked = AtomicU8::new(0);
    let server = CapturingServer::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => CapturedAnswer::new("503 Service Unavailable", ""),
        _ => CapturedAnswer::new("200 OK\r\nContent-Type: text/xml", PUBLISHED),
    });
    let topic = TopicConfig::new("arn:aws:sns:us-east-1:000000000000:alerts").unwrap();
    let sender = EventSender::topic_at(&topic, connect(&server.endpoint()), quick());
    sender.send(&incident("gemini", 7));
    assert!(sender.flush(WITHIN));
    assert_eq!((server.requests().len(), sender.dropped()), (3, 0));
    let sent = server.requests()[2].text();
    assert!(sent.contains("Action=Publish") && sent.contains("Subject=tollway"), "{sent}");
}

pub(super) const PUBLISHED: &str = "<PublishResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><PublishResult>\
                         <MessageId>1</MessageId></PublishResult></PublishResponse>";

const WELL: u8 = 0;
const THROTTLES: u8 = 1;
const SLOW: u8 = 2;

/// A store outside the process that does as the test says: no emulator throttles.
struct Moody {
    mood: AtomicU8,
    clock: Arc<ManualClock>,
    inner: MemoryStore,
}

impl Store for Moody {
    fn apply(&self, batch: &[Operation]) -> Answer {
        match self.mood.load(Ordering::SeqCst) {
            THROTTLES => {
                let message = "too many requests".to_owned();
                return Answer::now(Err(StoreError { fault: Fault::Throttled, retry: Retry::Safe, message }));
            }
            SLOW => self.clock.advance(Span::from_millis(60)),
            _ => {}
        }
        self.inner.apply(batch)
    }
}

/// A limiter on such a store, its alarms, and the topic that they go to.
struct Lab {
    clock: Arc<ManualClock>,
    store: Arc<Moody>,
    limiter: Limiter,
    watch: StoreAlarmWatch,
    sender: EventSender,
}

impl Lab {
    fn new(server: &Ministack, queue: &str) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_793_628_300)));
        let inner = MemoryStore::new(clock.clone());
        let store = Arc::new(Moody { mood: AtomicU8::new(WELL), clock: clock.clone(), inner });
        let builder = Limiter::builder().policy("gemini", ["1M / hour bucket"]).unwrap();
        let limiter = builder.store(store.clone()).clock(clock.clone()).metrics().build();
        let watch = StoreAlarmWatch::new(&limiter, "serve");
        Self { clock, store, limiter, watch, sender: sender(server, queue, quick()) }
    }

    fn mood(&self, mood: u8) {
        self.store.mood.store(mood, Ordering::SeqCst);
    }

    async fn take(&self) {
        assert!(self.limiter.try_take("gemini").await.unwrap().is_granted());
    }

    /// What has changed, sent.
    fn look(&mut self) {
        self.watch.look().into_iter().for_each(|event| self.sender.send_event(event));
        assert!(self.sender.flush(WITHIN));
    }

    fn seconds_pass(&self, seconds: u64) {
        self.clock.advance(Span::from_secs(seconds));
    }

    async fn look_until(&mut self, alarm: &str, is_raised: bool) {
        let raised = |limiter: &Limiter| limiter.store_alarms().iter().any(|raised| raised.name() == alarm);
        while raised(&self.limiter) != is_raised {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.look();
    }
}

/// Each event's kind and alarm.
fn told(server: &Ministack, queue: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let told = events(server, queue).into_iter();
    let mut told: Vec<_> =
        told.map(|event| (text(&event["event"]), text(&event[text(&event["event"])]["alarm"]))).collect();
    told.sort();
    told
}

fn pair(kind: &str, alarm: &str) -> (String, String) {
    (kind.to_owned(), alarm.to_owned())
}

/// G7, G8: fallback and lasting throttling are told once each, and so is their end.
#[tokio::test(flavor = "multi_thread")]
async fn fallback_and_throttling_are_told_with_their_end() {
    let server = Ministack::shared();
    let mut lab = Lab::new(server, "throttled");
    lab.take().await;
    lab.look();
    assert_eq!(told(server, "throttled"), [], "nothing is wrong");
    lab.mood(THROTTLES);
    lab.take().await;
    lab.look_until("fallback", true).await;
    lab.seconds_pass(31);
    lab.look_until("store_throttled", true).await;
    lab.look();
    assert_eq!(
        told(server, "throttled"),
        [pair("alarm", "fallback"), pair("alarm", "store_throttled")],
        "once each"
    );
    lab.mood(WELL);
    lab.look_until("fallback", false).await;
    lab.seconds_pass(61);
    lab.look();
    lab.look();
    assert_eq!(
        told(server, "throttled"),
        [pair("alarm_over", "fallback"), pair("alarm_over", "store_throttled")]
    );
}

/// G12: acquisitions above 50 ms are told once, and so is their end.
#[tokio::test(flavor = "multi_thread")]
async fn slow_acquisitions_are_told_with_their_end() {
    let server = Ministack::shared();
    let mut lab = Lab::new(server, "slow");
    lab.take().await;
    lab.mood(SLOW);
    for _ in 0..5 {
        lab.take().await;
    }
    lab.mood(WELL);
    lab.seconds_pass(60);
    lab.look();
    lab.look();
    assert_eq!(told(server, "slow"), [pair("alarm", "acquisition_slow")]);
    lab.take().await;
    lab.seconds_pass(60);
    lab.look();
    assert_eq!(told(server, "slow"), [pair("alarm_over", "acquisition_slow")]);
}

/// Takes that a server denies for charges in flight are told once, and so is their end, a minute after the last.
#[tokio::test(flavor = "multi_thread")]
async fn limited_charges_are_told_with_their_end() {
    let server = Ministack::shared();
    let mut lab = Lab::new(server, "limited");
    lab.limiter.note_charges_limited();
    lab.look();
    lab.seconds_pass(59);
    lab.limiter.note_charges_limited();
    lab.seconds_pass(59);
    lab.look();
    assert_eq!(told(server, "limited"), [pair("alarm", "charges_limited")]);
    lab.seconds_pass(2);
    lab.look();
    assert_eq!(told(server, "limited"), [pair("alarm_over", "charges_limited")]);
}
