//! Processes without their store.

use tollway_core::{Feedback, Span};
use tollway_testkit::servers::RedisServer;
use tollway_vendor::server::LoggedCall;
use tollway_vendor::{Outcome, Quota, Shape};

use crate::fleet::{Fleet, limiter};
use crate::windows::{LATENCY, LIMIT, WINDOW, WORKERS, by_window, next_window};
use crate::{config, now, sleep_until, until, vendor};

/// B5, G11: Redis stands still for ten seconds and goes on where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_stands_still_refusals_are_incidents_and_work_goes_on() {
    work_goes_on(RedisServer::pause, RedisServer::resume).await;
}

/// B5, G11: Redis is killed, and back after ten seconds without its data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_gone_refusals_are_incidents_and_work_goes_on() {
    work_goes_on(RedisServer::kill, RedisServer::restart).await;
}

/// Redis is away for ten seconds, in which a window begins. Each process then has a share of that window, together more than
/// there is: the vendor refuses some, each refusal is an incident, and afterwards windows are full again.
async fn work_goes_on(leaves: fn(&RedisServer), returns: fn(&RedisServer)) {
    let redis = RedisServer::start();
    let vendor = vendor(LIMIT, Span::ZERO, LATENCY).await;
    let keys = "limits = [\"50 requests / 15 seconds\"]";
    let fleet = Fleet::start(WORKERS, &config(&redis.url(), &vendor, keys));
    let start = next_window(now().plus(Span::from_secs(8)), Span::ZERO);
    sleep_until(start.minus(Span::from_secs(3))).await;
    leaves(&redis);
    sleep_until(start.plus(Span::from_secs(7))).await;
    returns(&redis);
    // Takes that Redis found in its sockets were granted without a caller, in the next window at the latest.
    let (again, end) = (start.plus(WINDOW.times(2)), start.plus(WINDOW.times(3)));
    sleep_until(again).await;
    until("a window is full again", async || vendor.count_between(Outcome::Accepted, again, end) == 50).await;
    let refused = vendor.counts().refused;
    let refused_after = vendor.count_between(Outcome::Refused, again, end);
    let report = fleet.end();
    println!("{refused} refused, {report:?}, accepted by window: {:?}", by_window(&vendor, Span::ZERO));
    assert!(refused > 0, "the processes had more than their share of the window without Redis");
    assert_eq!((report.incidents, report.failed), (refused, 0));
    assert_eq!(refused_after, 0);
}

/// D5: a process obeys a refusal that it cannot tell the store, and tells it when the store is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_without_redis_applies_and_is_told_later() {
    const HELD: Span = Span::from_secs(20);
    let redis = RedisServer::start();
    let vendor = vendor("1000 / second bucket", Span::ZERO, Span::from_millis(20)).await;
    let config = config(&redis.url(), &vendor, "limits = [\"1000 requests / second paced\"]");
    let fleet = Fleet::start(1, &config);
    until("calls are made", async || vendor.counts().accepted > 20).await;
    redis.kill();
    let killed_at = now();
    until("calls are made without Redis", async || {
        vendor.count_between(Outcome::Accepted, killed_at.plus(Span::from_millis(200)), now()) > 20
    })
    .await;
    // One call every twenty seconds.
    vendor.set_quotas(vec![Quota::calls(Shape::Bucket { rate: 50_000, burst: 1 })]);
    until("the vendor refuses", async || vendor.counts().refused > 0).await;
    let refused = |call: &&LoggedCall| call.outcome == Outcome::Refused;
    let refusal = vendor.calls().iter().find(refused).unwrap().at;
    sleep_until(refusal.plus(Span::from_secs(4))).await;
    redis.restart();

    let other = limiter(&config);
    until("another process knows the hold", async || {
        other.feedback("vendor", Feedback::default()).await.is_ok_and(|learned| learned.held_until.is_some())
    })
    .await;
    let learned = other.feedback("vendor", Feedback::default()).await.unwrap();
    let held_until = learned.held_until.unwrap();
    println!("the other process knows it {:?} after the refusal", now().since(refusal));
    // The vendor rounds its wait up to a second.
    assert!(held_until <= refusal.plus(HELD).plus(Span::from_secs(2)), "{held_until:?} after {refusal:?}");
    assert!(held_until >= refusal.plus(Span::from_secs(15)), "{held_until:?} after {refusal:?}");
    sleep_until(refusal.plus(Span::from_secs(15))).await;
    let late = |call: &&LoggedCall| call.at > refusal.plus(Span::from_millis(1_500));
    assert_eq!(vendor.calls().iter().filter(late).count(), 0, "calls although the vendor asked to wait");
    assert_eq!(fleet.end().failed, 0);
}
