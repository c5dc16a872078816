//! The bounds of a config's `[bounds]` take effect.

use std::future::IntoFuture;

use tokio::time::sleep;
use tollway::{Config, Durations, Limiter, TakeError};

use crate::paused::{PausedClock, settle_down};

/// How many accounts the new subjects of a policy share once the store is full.
const SHARED_ACCOUNTS: usize = 1_024;

fn limiter(config: &str) -> Limiter {
    Limiter::builder().config(&Config::parse(config).unwrap()).unwrap().build()
}

#[test]
fn subjects_beyond_memory_accounts_share_accounts() {
    let policy = "[policies.api]\nlimits = [\"1 / 300 days bucket\"]\n";
    let granted = |bounds: &str| {
        let limiter = limiter(&format!("{policy}{bounds}"));
        let api = limiter.policy("api").unwrap();
        let subjects = (0..20_000).map(|number| format!("subject-{number}"));
        subjects.filter(|subject| api.try_take().subject(subject).now().unwrap().is_granted()).count()
    };
    assert_eq!(granted(""), 20_000);
    assert_eq!(granted("[bounds]\nmemory_accounts = 640"), 640 + SHARED_ACCOUNTS);
    assert_eq!(granted("[store]\nurl = \"memory:\"\n[bounds]\nmemory_accounts = 640"), 640 + SHARED_ACCOUNTS);
}

#[tokio::test(start_paused = true)]
async fn takes_beyond_waiting_takes_do_not_wait() {
    let config = "[policies.api]\nlimits = [\"1 concurrent\"]\n[bounds]\nwaiting_takes = 2";
    let builder = Limiter::builder().config(&Config::parse(config).unwrap()).unwrap();
    let limiter = builder.clock(PausedClock::start()).build();
    let held = limiter.take("api").await.unwrap();
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.take("api").await.unwrap().done().await.unwrap() })
        })
        .collect();
    settle_down().await;
    assert!(matches!(limiter.take("api").into_future().await, Err(TakeError::Denied(_))));
    sleep(1.seconds()).await;
    held.done().await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap();
    }
    let held = limiter.take("api").await.unwrap();
    let waits = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.take("api").await.is_ok() }
    });
    settle_down().await;
    held.done().await.unwrap();
    assert!(waits.await.unwrap(), "the others no longer wait");
}
