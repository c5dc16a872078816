//! A store that refuses access counts like an outage (G7): three failures open the breaker, which the log and the metrics
//! report; once repaired, the store is used again. An unreadable account does not affect the others.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::time::Duration;

use crate::heard::Heard;
use tollway::core::WhenStoreFails;
use tollway::metrics::Figure;
use tollway::{Limiter, Policy};
use tollway_testkit::faults::{AwsFront, Treatment};
use tollway_testkit::servers::{DynamoServer, PostgresServer, RedisServer};
use tollway_testkit::wait_for;

fn limiter(url: &str) -> Limiter {
    let policy = Policy::new("api", ["100 requests / day from first call"]).unwrap();
    let policy = policy.with_when_store_fails(WhenStoreFails::Local);
    let builder = Limiter::builder().with_policy(policy).unwrap();
    builder.store_at(&url.parse().unwrap()).unwrap().metrics().build()
}

fn until(what: &str, reached: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if reached() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("never {what}");
}

fn number(limiter: &Limiter, name: &str) -> u64 {
    let samples = wait_for(limiter.samples());
    match samples.into_iter().find(|sample| sample.metric.name == name).unwrap().figure {
        Figure::Number(number) => number,
        _ => panic!("{name} is no number"),
    }
}

fn decided_by_store(limiter: &Limiter, subject: &str) -> bool {
    let taken = limiter.try_take("api").subject(subject).now().unwrap();
    taken.granted().is_some_and(|permit| !permit.degraded())
}

/// Takes from a store that does not let us, until that was mended; `why` is what the log says.
fn breaker_opens_until_repaired(limiter: &Limiter, why: &str, asked: impl Fn() -> u64, mend: impl FnOnce()) {
    let heard = Heard::default();
    tracing::subscriber::with_default(heard.clone(), || {
        for _ in 0..3 {
            assert!(!decided_by_store(limiter, "a"), "{why}");
        }
    });
    let status = limiter.store_status();
    assert!(status.fallbacks == 1 && status.degraded_since.is_some(), "{why}: {status:?}");
    assert!(status.last_error.unwrap().contains(why));
    assert_eq!(number(limiter, "RateLimiterFallbackActivated"), 1, "{why}");
    assert_eq!(number(limiter, "tollway_store_degraded"), 1, "{why}");
    assert_eq!((heard.count("RateLimiterFallbackActivated"), heard.count(why) >= 2), (1, true), "{why}");
    let before = asked();
    (0..200).for_each(|_| drop(limiter.try_take("api").subject("a").now().unwrap()));
    assert!(asked() - before < 100, "{why}: only probes reach the store");
    mend();
    until("returned", || limiter.store_status().degraded_since.is_none());
    until("decided by the store", || decided_by_store(limiter, "b"));
}

/// G7: an IAM role that lost a right, whichever.
#[test]
fn g7_dynamodb_access_denied_opens_the_breaker() {
    for action in ["", "PutItem"] {
        let server = DynamoServer::start();
        let front = AwsFront::to(server.addr());
        let limiter = limiter(&format!("{}&deadline=20s", DynamoServer::url_through(front.addr(), "denied")));
        until("reached", || decided_by_store(&limiter, "a"));
        front.always(action, Treatment::Denied);
        let asked = || front.count("PutItem") + front.count("GetItem");
        breaker_opens_until_repaired(&limiter, "AccessDeniedException", asked, || front.clear());
    }
}

/// G7: a table that does not exist yet.
#[test]
fn g7_dynamodb_missing_table_opens_the_breaker() {
    let server = DynamoServer::start();
    let front = AwsFront::to(server.addr());
    let url = format!("{}&deadline=20s", DynamoServer::url_through(front.addr(), "later"));
    let limiter = limiter(&url.replace("create=yes", "create=no"));
    let asked = || front.count("PutItem") + front.count("GetItem");
    breaker_opens_until_repaired(&limiter, "ResourceNotFoundException", asked, || {
        until("made", || decided_by_store(&self::limiter(&url), "maker"));
    });
}

/// G7: an ACL user that lost its rights (NOPERM), and one whose password is another now (WRONGPASS).
#[test]
fn g7_redis_permission_error_opens_the_breaker() {
    let redis = RedisServer::start();
    let user = |rules: &[&str]| {
        let words = [&["ACL", "SETUSER", "app", "reset", "on", "~*"], rules].concat();
        assert_eq!(redis.command(&words), "OK");
    };
    let url = format!("redis://app:secret@{}/0?deadline=20s", redis.addr());
    let limited = limiter(&url);
    user(&[">secret", "+@all"]);
    until("reached", || decided_by_store(&limited, "a"));
    user(&[">secret", "+ping"]);
    breaker_opens_until_repaired(&limited, "NOPERM", || 0, || user(&[">secret", "+@all"]));
    user(&[">other", "+@all"]);
    let wrong = limiter(&url);
    breaker_opens_until_repaired(&wrong, "WRONGPASS", || 0, || user(&[">secret", "+@all"]));
}

/// G7: a table that was renamed by hand.
#[test]
fn g7_postgres_missing_tables_open_the_breaker() {
    let postgres = PostgresServer::start();
    let url = postgres.url();
    let join = if url.contains('?') { '&' } else { '?' };
    let limiter = limiter(&format!("{url}{join}deadline=20s"));
    until("reached", || decided_by_store(&limiter, "a"));
    postgres.query("ALTER TABLE tollway.lines RENAME TO elsewhere");
    breaker_opens_until_repaired(
        &limiter,
        "42P01",
        || 0,
        || {
            postgres.query("ALTER TABLE tollway.elsewhere RENAME TO lines");
        },
    );
}

/// An unreadable account is logged and decided without the store; the others still use the store.
#[test]
fn an_unreadable_account_does_not_affect_others() {
    let redis = RedisServer::start();
    let limiter = limiter(&format!("{}?deadline=20s", redis.url()));
    until("reached", || decided_by_store(&limiter, "bad"));
    let line = "tollway:1:{s:bad}:api";
    assert_eq!(redis.command(&["EXISTS", line]), "1");
    // Cut short, as the script would find out.
    redis.command(&["SET", line, "\u{c1}"]);
    let heard = Heard::default();
    tracing::subscriber::with_default(heard.clone(), || {
        for _ in 0..5 {
            assert!(!decided_by_store(&limiter, "bad"), "{line}");
        }
    });
    assert_eq!(
        (heard.count("an account cannot be used"), heard.count("RateLimiterFallbackActivated")),
        (1, 0)
    );
    assert_eq!(limiter.store_status().fallbacks, 0);
    assert!(decided_by_store(&limiter, "good"));
}
