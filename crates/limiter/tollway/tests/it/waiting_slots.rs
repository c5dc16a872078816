//! Slots: freed when a call is over, renewed while it runs, and given to the take that waited longest.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::paused::{limiter, limiter_of, settle_down, used};
use tokio::time::sleep;
use tollway::{Durations, Policy};

/// Each of these ends of a call frees its slot, and the next in order has it at that very moment.
#[tokio::test(start_paused = true)]
async fn a_slot_wakes_the_next_in_order_however_the_call_ends() {
    let (limiter, clock) = limiter([("api", "1 concurrent")]);
    let order = Arc::new(Mutex::new(Vec::new()));
    let task = |number: u64| {
        let (limiter, clock, order) = (limiter.clone(), clock.clone(), order.clone());
        tokio::spawn(async move {
            let mut permit = limiter.take("api").await.unwrap();
            permit.begin().await.unwrap();
            order.lock().unwrap().push((number, clock.millis()));
            sleep(10.seconds()).await;
            match number % 4 {
                0 => drop(permit),
                1 => permit.done().await.unwrap(),
                2 => drop(permit.give_back().await.unwrap()),
                _ => drop(permit.settle_all([]).await.unwrap()),
            }
        })
    };
    let tasks: Vec<_> = (0..8).map(task).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let expected: Vec<_> = (0..8).map(|number| (number, 10_000 * number)).collect();
    assert_eq!(*order.lock().unwrap(), expected);
    assert_eq!(used(&limiter, "api").await, 0);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_the_slots_run_at_once() {
    let (limiter, clock) = limiter([("api", "3 concurrent")]);
    let running = Arc::new(Mutex::new((0, 0)));
    let task = |_| {
        let (limiter, running) = (limiter.clone(), running.clone());
        tokio::spawn(async move {
            let permit = limiter.take("api").await.unwrap();
            {
                let mut running = running.lock().unwrap();
                running.0 += 1;
                running.1 = running.1.max(running.0);
            }
            sleep(1.seconds()).await;
            running.lock().unwrap().0 -= 1;
            drop(permit);
        })
    };
    let tasks: Vec<_> = (0..30).map(task).collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(running.lock().unwrap().1, 3);
    assert_eq!(clock.millis(), 10_000, "no slot was free while a take waited");
}

#[tokio::test(start_paused = true)]
async fn a_held_permit_renews_its_slot_beyond_the_expiry() {
    let (limiter, clock) = limiter([("api", "1 concurrent expires 30s")]);
    let long = limiter.take("api").await.unwrap();
    sleep(10.minutes()).await;
    assert_eq!(used(&limiter, "api").await, 1);
    assert!(!limiter.try_take("api").await.unwrap().is_granted());
    drop(long);
    assert!(limiter.try_take("api").await.unwrap().is_granted());
    assert_eq!(clock.millis(), 600_000);
}

/// A renewed slot is good: `begin` on it is free, holds no second slot, and frees the one it has.
#[tokio::test(start_paused = true)]
async fn begin_after_a_renewal_needs_no_second_slot() {
    let (limiter, clock) = limiter([("api", "1 concurrent expires 30s")]);
    let mut permit = limiter.take("api").await.unwrap();
    sleep(2.minutes()).await;
    permit.begin().await.unwrap();
    assert_eq!((used(&limiter, "api").await, clock.millis()), (1, 120_000));
    permit.done().await.unwrap();
    assert_eq!(used(&limiter, "api").await, 0);
}

/// Two slots, so that a wrong second one would be granted.
#[tokio::test(start_paused = true)]
async fn a_call_that_begins_late_holds_one_slot_and_not_two() {
    let policy = Policy::new("api", ["2 concurrent expires 30s", "100 / minute"]).unwrap();
    let (limiter, _clock) = limiter_of([policy]);
    let mut permit = limiter.take("api").await.unwrap();
    sleep(90.seconds()).await;
    permit.begin().await.unwrap();
    assert_eq!(used(&limiter, "api").await, 1, "in its new minute, with the slot it has");
    sleep(5.minutes()).await;
    assert_eq!(used(&limiter, "api").await, 1, "the permit is held, so its slot is kept");
    drop(permit);
    assert_eq!(used(&limiter, "api").await, 0, "its end frees it");
}

/// The slot that a waiter lacks may be its second policy's.
#[tokio::test(start_paused = true)]
async fn a_freed_slot_wakes_takes_under_several_policies() {
    let (limiter, clock) = limiter([("quota", "100 / hour"), ("slots", "1 concurrent")]);
    let holding = limiter.take("slots").await.unwrap();
    let waiting = {
        let (limiter, clock) = (limiter.clone(), clock.clone());
        tokio::spawn(async move {
            let permit = limiter.take("quota").and("slots").await.unwrap();
            (clock.millis(), permit)
        })
    };
    sleep(5.seconds()).await;
    drop(holding);
    assert_eq!(waiting.await.unwrap().0, 5_000);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_passes_its_turn_on() {
    let (limiter, clock) = limiter([("api", "1 concurrent")]);
    let holding = limiter.take("api").await.unwrap();
    let wait = || {
        let (limiter, clock) = (limiter.clone(), clock.clone());
        tokio::spawn(async move {
            let permit = limiter.take("api").await.unwrap();
            (clock.millis(), permit)
        })
    };
    let (leaving, staying) = (wait(), wait());
    settle_down().await;
    leaving.abort();
    sleep(3.seconds()).await;
    drop(holding);
    assert_eq!(staying.await.unwrap().0, 3_000);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_slot_ends_at_its_time_with_a_denial() {
    let (limiter, clock) = limiter([("api", "1 concurrent")]);
    let _holding = limiter.take("api").await.unwrap();
    let error = limiter.take("api").max_wait(7.seconds()).await.unwrap_err();
    assert!(error.denied().is_some(), "{error}");
    assert_eq!(clock.millis(), 7_000);
}

/// A take that exceeds the queue limit is answered at once; queued takes go on waiting.
#[tokio::test(start_paused = true)]
async fn takes_beyond_the_queue_limit_are_denied_at_once() {
    let (limiter, _clock) = limiter([("api", "1 concurrent"), ("other", "1 concurrent")]);
    let _holding = (limiter.take("api").await.unwrap(), limiter.take("other").await.unwrap());
    let mut context = Context::from_waker(Waker::noop());
    let mut wait = |policy| {
        let mut waiting = limiter.take(policy).into_future();
        let answer = Pin::new(&mut waiting).poll(&mut context);
        (waiting, answer)
    };
    let mut waiting = Vec::new();
    for _ in 0..65_536 {
        let (one, answer) = wait("api");
        assert!(answer.is_pending());
        waiting.push(one);
    }
    let Poll::Ready(Err(error)) = wait("other").1 else { panic!("one more than may wait") };
    assert!(error.denied().is_some(), "{error}");
    waiting.pop();
    assert!(wait("other").1.is_pending(), "the queue has room again");
}
