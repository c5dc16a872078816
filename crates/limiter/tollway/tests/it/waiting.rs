//! Waiting in the store's queue: exact times, first come first served, and a returned booking goes to the next. B4, A2, G2.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use crate::paused::{PausedClock, limiter, limiter_of, settle_down, used};
use tokio::task::JoinHandle;
use tokio::time::{advance, sleep, timeout};
use tollway::{Durations, Limiter, Permit, Policy, Span, TakeError};

/// Waits for a permit in a task of its own and answers at which millisecond it came.
fn waiter(limiter: &Limiter, policy: &'static str, clock: &Arc<PausedClock>) -> JoinHandle<(u64, Permit)> {
    let (limiter, clock) = (limiter.clone(), clock.clone());
    tokio::spawn(async move {
        let permit = limiter.take(policy).await.unwrap();
        (clock.millis(), permit)
    })
}

/// A2, G2: the store says when, and the caller sleeps until just then.
#[tokio::test(start_paused = true)]
async fn each_booking_has_its_exact_time() {
    for (limit, times) in [
        ("2 / minute", [0, 0, 60_000, 60_000, 120_000]),
        ("2 / minute from first call", [0, 0, 60_000, 60_000, 120_000]),
        ("2 / second bucket", [0, 0, 500, 1_000, 1_500]),
        ("2 / second paced", [0, 500, 1_000, 1_500, 2_000]),
    ] {
        let (limiter, clock) = limiter([("api", limit)]);
        for time in times {
            drop(limiter.take("api").await.unwrap());
            assert_eq!(clock.millis(), time, "{limit}");
        }
    }
}

/// B4: in order of arrival, also among tasks that all wait at once.
#[tokio::test(start_paused = true)]
async fn first_come_is_first_served() {
    let (limiter, clock) = limiter([("api", "10 / second paced")]);
    let waiters: Vec<_> = (0..50).map(|_| waiter(&limiter, "api", &clock)).collect();
    for (number, waiter) in waiters.into_iter().enumerate() {
        assert_eq!(waiter.await.unwrap().0, 100 * number as u64);
    }
}

/// A thousand tasks at a thousand a second: all are granted, at times one millisecond apart.
#[tokio::test(start_paused = true)]
async fn a_thousand_tasks_share_a_pace_evenly() {
    const TASKS: usize = 1_000;
    let (limiter, clock) = limiter([("api", "1000 / second paced")]);
    // No task is served on arrival: it would come a second time before the others have come at all.
    drop(limiter.take("api").await.unwrap());
    let grants = Arc::new(Mutex::new((vec![0u64; TASKS], Vec::new())));
    let task = |number: usize| {
        let (limiter, clock, grants) = (limiter.clone(), clock.clone(), grants.clone());
        tokio::spawn(async move {
            for round in 1..=3 {
                drop(limiter.take("api").await.unwrap());
                let mut grants = grants.lock().unwrap();
                grants.0[number] = round;
                let (most, least) = (grants.0.iter().max().unwrap(), grants.0.iter().min().unwrap());
                assert!(most - least <= 1, "a task is {} grants behind another", most - least);
                grants.1.push(clock.millis());
            }
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(task).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let times = grants.lock().unwrap().1.clone();
    assert_eq!(times, (1..=3 * TASKS as u64).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_wait_longer_than_allowed_is_denied_at_once_and_costs_nothing() {
    let (limiter, clock) = limiter([("api", "1 / minute")]);
    drop(limiter.take("api").await.unwrap());
    let error = limiter.take("api").max_wait(59_999.millis()).await.unwrap_err();
    let denied = error.denied().unwrap();
    assert_eq!((clock.millis(), denied.retry_after()), (0, 60.seconds()));
    drop(limiter.take("api").max_wait(60.seconds()).await.unwrap());
    assert_eq!(clock.millis(), 60_000, "just long enough, and the denied take has no booking");
}

#[tokio::test(start_paused = true)]
async fn the_cap_of_the_policy_holds_whatever_the_caller_accepts() {
    let policy = Policy::new("api", ["1 / minute"]).unwrap().with_max_wait(Span::from_secs(90)).unwrap();
    let (limiter, clock) = limiter_of([policy]);
    drop(limiter.take("api").await.unwrap());
    let second = waiter(&limiter, "api", &clock);
    settle_down().await;
    let error = limiter.take("api").max_wait(60.minutes()).await.unwrap_err();
    assert_eq!(error.denied().unwrap().retry_after(), 120.seconds());
    assert_eq!(second.await.unwrap().0, 60_000);
}

/// Takes that do not wait do not overtake queued ones.
#[tokio::test(start_paused = true)]
async fn a_try_is_denied_while_others_are_queued() {
    let (limiter, clock) = limiter([("api", "1 / second paced")]);
    drop(limiter.take("api").await.unwrap());
    let waiting = waiter(&limiter, "api", &clock);
    settle_down().await;
    assert!(!limiter.try_take("api").await.unwrap().is_granted());
    assert_eq!(waiting.await.unwrap().0, 1_000);
}

#[tokio::test(start_paused = true)]
async fn the_last_booking_dropped_goes_to_the_next_take() {
    for limit in ["1 / minute", "1 / minute from first call", "1 / minute bucket", "1 / minute paced"] {
        let (limiter, clock) = limiter([("api", limit)]);
        drop(limiter.take("api").await.unwrap());
        let impatient = timeout(10.seconds(), limiter.take("api")).await;
        assert!(impatient.is_err(), "{limit}");
        assert_eq!(clock.millis(), 10_000);
        drop(limiter.take("api").await.unwrap());
        assert_eq!(clock.millis(), 60_000, "{limit}: the booking of the dropped take");
        assert_eq!(limiter.permits_lost(), 0, "{limit}");
    }
}

/// In a window all places are alike, so one in the middle comes back too; in a bucket the others were booked on top of it.
#[tokio::test(start_paused = true)]
async fn a_booking_dropped_in_the_middle_is_returned_to_a_window_but_not_to_a_bucket() {
    for (limit, lost, next) in [("2 / minute", 0, 60_000), ("1 / minute paced", 1, 180_000)] {
        let (limiter, clock) = limiter([("api", limit)]);
        while limiter.try_take("api").await.unwrap().is_granted() {}
        let leaving = waiter(&limiter, "api", &clock);
        settle_down().await;
        let staying = waiter(&limiter, "api", &clock);
        settle_down().await;
        leaving.abort();
        settle_down().await;
        assert_eq!(limiter.permits_lost(), lost, "{limit}");
        let late = waiter(&limiter, "api", &clock);
        assert_eq!(staying.await.unwrap().0, if lost == 0 { 60_000 } else { 120_000 }, "{limit}");
        assert_eq!(late.await.unwrap().0, next, "{limit}");
    }
}

/// I1, I5: a booking under an id belongs to the id. Repeating the take gets it again; no other take does.
#[tokio::test(start_paused = true)]
async fn a_booking_under_an_id_is_kept_for_a_repeated_take() {
    let (limiter, clock) = limiter([("api", "1 / minute")]);
    drop(limiter.take("api").await.unwrap());
    assert!(timeout(10.seconds(), limiter.take("api").id("job-7")).await.is_err());
    let other = waiter(&limiter, "api", &clock);
    settle_down().await;
    drop(limiter.take("api").id("job-7").await.unwrap());
    assert_eq!(clock.millis(), 60_000);
    assert_eq!(other.await.unwrap().0, 120_000, "one call a minute");
}

/// I1, I5: two waiters under one id share one permit; if one leaves, no third take may get it.
#[tokio::test(start_paused = true)]
async fn a_booking_shared_by_two_waiters_stays_while_one_waits() {
    let (limiter, clock) = limiter([("api", "1 / minute")]);
    drop(limiter.take("api").await.unwrap());
    let twin = |wait: u64| {
        let limiter = limiter.clone();
        tokio::spawn(async move { timeout(wait.seconds(), limiter.take("api").id("job-7")).await })
    };
    let (staying, leaving) = (twin(600), twin(10));
    assert!(leaving.await.unwrap().is_err());
    let third = waiter(&limiter, "api", &clock);
    assert!(staying.await.unwrap().unwrap().is_ok());
    assert_eq!(clock.millis(), 60_000);
    assert_eq!(third.await.unwrap().0, 120_000, "one call a minute");
}

#[tokio::test(start_paused = true)]
async fn sliding_waits_until_the_count_has_slid_far_enough() {
    let (limiter, clock) = limiter([("api", "10 / minute sliding")]);
    for _ in 0..10 {
        drop(limiter.take("api").await.unwrap());
    }
    assert_eq!(clock.millis(), 0);
    let times: Vec<_> = (0..3).map(|_| waiter(&limiter, "api", &clock)).collect();
    for (waiter, time) in times.into_iter().zip([66_000, 72_000, 78_000]) {
        assert_eq!(waiter.await.unwrap().0, time, "a tenth of the last minute has slid out");
    }
}

/// Several policies cannot be booked ahead: the waiters of this process retry in order of arrival.
#[tokio::test(start_paused = true)]
async fn waits_under_several_policies_are_served_in_order() {
    let (limiter, clock) = limiter([("one", "1 / minute"), ("two", "100 / hour")]);
    let order = Arc::new(Mutex::new(Vec::new()));
    let task = |number: u64| {
        let (limiter, clock, order) = (limiter.clone(), clock.clone(), order.clone());
        tokio::spawn(async move {
            drop(limiter.take("one").and("two").await.unwrap());
            order.lock().unwrap().push((number, clock.millis()));
        })
    };
    let tasks: Vec<_> = (0..5).map(task).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let expected: Vec<_> = (0..5).map(|number| (number, 60_000 * number)).collect();
    assert_eq!(*order.lock().unwrap(), expected);
    assert_eq!(used(&limiter, "two").await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_wait_under_several_policies_ends_at_its_time_with_a_denial() {
    let (limiter, clock) = limiter([("one", "1 / minute"), ("two", "100 / hour")]);
    drop(limiter.take("one").await.unwrap());
    let error = limiter.take("two").and("one").max_wait(20.seconds()).await.unwrap_err();
    assert!(matches!(&error, TakeError::Denied(denied) if denied.policy().name().as_str() == "one"));
    assert_eq!(clock.millis(), 20_000);
    assert_eq!(used(&limiter, "two").await, 0);
}

/// A take whose deadline passes tries once more, but not before earlier takes that still wait.
#[tokio::test(start_paused = true)]
async fn a_small_take_does_not_overtake_a_large_one_that_came_first() {
    let (limiter, clock) = limiter([("api", "10 / minute sliding")]);
    drop(limiter.take("api").cost("requests", 5).await.unwrap());
    let large = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.take("api").cost("requests", 8).await.map(drop) }
    });
    settle_down().await;
    let small = limiter.take("api").max_wait(10.seconds()).await;
    assert!(small.is_err(), "granted at {} ms before the one in front of it", clock.millis());
    large.await.unwrap().unwrap();
}

/// While the clock stands still nothing is granted, however often the store is called.
#[tokio::test(start_paused = true)]
async fn no_waiter_is_granted_a_millisecond_early() {
    let (limiter, clock) = limiter([("api", "1 / second paced")]);
    drop(limiter.take("api").await.unwrap());
    let waiting = waiter(&limiter, "api", &clock);
    settle_down().await;
    advance(999.millis()).await;
    settle_down().await;
    assert!(!waiting.is_finished());
    sleep(1.millis()).await;
    settle_down().await;
    assert!(waiting.is_finished());
}
