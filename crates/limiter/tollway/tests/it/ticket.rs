//! Permits as data, places that are taken without waiting for them, and the secret that a store's sharers have in common.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use tollway::ticket::TicketBegun;
use tollway::{Durations, Limiter, Settled, TakeError, Taken};

fn limiter(limits: &[&str]) -> Limiter {
    Limiter::builder().policy("p", limits.iter().copied()).unwrap().build()
}

async fn used(limiter: &Limiter) -> u64 {
    limiter.usage("p").await.unwrap().limits[0].used
}

/// B3: a ticket settles and returns once, in any process and however often it is repeated.
#[tokio::test]
async fn a_ticket_counts_once() {
    let limiter = limiter(&["100 tokens / hour"]);
    let ticket = limiter.take("p").cost("tokens", 40).await.unwrap().into_ticket();
    assert_eq!(ticket.settle(&limiter, [("tokens", 10)]).await.unwrap(), Settled::Whole);
    assert_eq!(ticket.settle(&limiter, [("tokens", 0)]).await.unwrap(), Settled::Repeated);
    assert_eq!(ticket.clone().give_back(&limiter).await.unwrap(), Settled::Repeated);
    assert_eq!(used(&limiter).await, 10);
}

/// A slot belongs to the ticket: it is not freed when the permit becomes one, and not renewed for it either.
#[tokio::test]
async fn a_ticket_holds_its_slot() {
    let limiter = limiter(&["1 concurrent"]);
    let ticket = limiter.take("p").await.unwrap().into_ticket();
    assert!(!limiter.try_take("p").await.unwrap().is_granted());
    assert!(ticket.renew(&limiter).await.unwrap());
    assert!(matches!(ticket.begin(&limiter).await.unwrap(), TicketBegun::Now));
    assert!(!limiter.try_take("p").await.unwrap().is_granted(), "beginning and renewing free nothing");
    ticket.done(&limiter).await.unwrap();
    assert!(!ticket.renew(&limiter).await.unwrap());
    assert!(limiter.try_take("p").await.unwrap().is_granted());
}

/// Under a rate, what headers say is left belongs to the call with that count.
#[tokio::test]
async fn a_ticket_under_a_rate_has_the_count_of_its_grant() {
    let config = "[apis.p]\nbase_url = \"http://127.0.0.1:1\"\n\
                  rate = { initial = 0.1, min = 0.1, max = 1, increase_step = 1, decrease_factor = 0.5 }";
    let rated = Limiter::builder().config(&tollway::Config::parse(config).unwrap()).unwrap().build();
    let ticket = rated.take("p").with_readings().await.unwrap().into_ticket();
    assert_eq!(ticket.rate_grants, 1);
    assert_eq!(ticket.permit(&rated).unwrap().into_ticket().charges, ticket.charges);
    let plain = limiter(&["9 / hour"]).take("p").with_readings().await.unwrap().into_ticket();
    assert_eq!(plain.rate_grants, 0);
}

#[tokio::test]
async fn a_ticket_uses_the_policy_in_force() {
    let limiter = limiter(&["100 tokens / hour", "9 / hour"]);
    let ticket = limiter.take("p").cost("tokens", 40).await.unwrap().into_ticket();
    limiter.replace_policies([tollway::Policy::new("p", ["50 tokens / hour"]).unwrap()]).unwrap();
    assert_eq!(ticket.give_back(&limiter).await.unwrap(), Settled::Whole);
    assert_eq!(used(&limiter).await, 0);
    limiter.replace_policies([]).unwrap();
    assert!(matches!(ticket.give_back(&limiter).await, Err(TakeError::UnknownPolicy { .. })));
}

/// B4: a booking, returned at once, and begun when it is due.
#[tokio::test]
async fn book_returns_without_waiting() {
    let limiter = limiter(&["1 / hour bucket"]);
    let book = async |hours: u64| limiter.take("p").max_wait((hours * 3_600).seconds()).book().await.unwrap();
    let Taken::Granted(first) = book(0).await else { panic!("the first is denied") };
    assert!(first.permit().delay().is_zero());
    assert!(matches!(book(2).await, Taken::Denied(_)), "the policy's longest wait still holds");
    let patient =
        tollway::Policy::new("p", ["1 / hour bucket"]).unwrap().with_max_wait(tollway::Span::from_hours(9));
    limiter.replace_policies([patient.unwrap()]).unwrap();
    let Taken::Granted(later) = book(2).await else { panic!("a booking in an hour is possible") };
    let permit = later.permit();
    assert!(permit.delay() > 3_500.seconds() && permit.delay() <= 3_600.seconds(), "{:?}", permit.delay());
    let ticket = permit.into_ticket();
    assert!(
        matches!(ticket.begin(&limiter).await.unwrap(), TicketBegun::Early(delay) if delay > 3_500.seconds())
    );
    assert_eq!(ticket.give_back(&limiter).await.unwrap(), Settled::Whole);
    assert!(matches!(book(1).await, Taken::Granted(_)), "the booking is free again");
}

#[tokio::test]
async fn limits_that_cannot_book_grant_now_or_deny() {
    let limiter = limiter(&["1 / hour sliding"]);
    assert!(limiter.take("p").book().await.unwrap().is_granted());
    assert!(!limiter.take("p").book().await.unwrap().is_granted());
}

/// The first process makes the secret; every process that shares the store reads it.
#[tokio::test]
async fn a_store_has_one_secret() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}", folder.path().join("state").display()).parse().unwrap();
    let limiter = || Limiter::builder().policy("p", ["1 / hour"]).unwrap().store_at(&url).unwrap().build();
    let (one, other) = (limiter(), limiter());
    assert_eq!(one.shared_secrets([1; 32]).await.unwrap(), [[1; 32]]);
    assert_eq!(other.shared_secrets([2; 32]).await.unwrap(), [[1; 32]]);
    drop((one, other));
    assert_eq!(limiter().shared_secrets([3; 32]).await.unwrap(), [[1; 32]]);
}

/// Processes that make one at the same time agree afterwards.
#[tokio::test]
async fn secrets_made_at_the_same_time_are_all_known() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}", folder.path().join("state").display()).parse().unwrap();
    let tasks = (0..8u8).map(|number| {
        let limiter = Limiter::builder().policy("p", ["1 / hour"]).unwrap().store_at(&url).unwrap().build();
        tokio::spawn(async move { limiter.shared_secrets([number; 32]).await.unwrap() })
    });
    let mut seen = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        seen.push(task.await.unwrap());
    }
    let limiter = Limiter::builder().policy("p", ["1 / hour"]).unwrap().store_at(&url).unwrap().build();
    let all = limiter.shared_secrets([99; 32]).await.unwrap();
    assert!(seen.iter().all(|known| known.iter().all(|secret| all.contains(secret))), "{seen:?}");
    assert!(!all.contains(&[99; 32]));
}
