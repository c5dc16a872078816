//! Everything that a network can do to a store, times what a policy may do about it: the caller always hears, every
//! decision says whether the store made it, and when it is over the shared limit is exact again (G7, G9, C7, T10, T11).
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tollway::core::{LocalShare, WhenStoreFails};
use tollway::{Limiter, Policy, TakeError, Taken};
use tollway_testkit::faults::{Fault, FaultProxy, Way};
use tollway_testkit::servers::{PostgresServer, RedisServer};

const LIMIT: u64 = 100;

/// Nothing here takes so long unless it hangs.
const HANGS_AFTER: Duration = Duration::from_secs(90);

fn faults() -> [Fault; 9] {
    let (fixed, jitter) = (Duration::from_millis(5), Duration::from_millis(5));
    [
        Fault::Latency { fixed, jitter },
        // Above every deadline here.
        Fault::Latency { fixed: Duration::from_secs(3), jitter },
        Fault::Blackhole,
        Fault::Refuse,
        Fault::Reset,
        Fault::HalfOpen,
        Fault::Slow { bytes_per_second: 50_000 },
        Fault::CutAfter { way: Way::ToClient, bytes: 10 },
        Fault::LoseReplies { times: None },
    ]
}

/// Whether calls get through all the same, only later.
fn is_bearable(fault: Fault) -> bool {
    match fault {
        Fault::Latency { fixed, .. } => fixed < Duration::from_secs(1),
        // Established connections stay open.
        Fault::Slow { .. } | Fault::Refuse => true,
        _ => false,
    }
}

const MODES: [WhenStoreFails; 3] = [WhenStoreFails::Open, WhenStoreFails::Local, WhenStoreFails::Closed];

/// The outcomes that the callers of one limiter got.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    by_store: u64,
    without: u64,
    errors: u64,
}

struct Case {
    name: String,
    mode: WhenStoreFails,
    through: Limiter,
    direct: Limiter,
    told: Told,
}

impl Case {
    fn new(name: String, mode: WhenStoreFails, through: &str, direct: &str) -> Self {
        let limiter = |url: &str| {
            // A share that does not depend on the limiters of the cases before.
            let share = LocalShare::new(1, 10).unwrap();
            let policy =
                Policy::new(&name, ["100 requests / day from first call"]).unwrap().with_local_share(share);
            let builder = Limiter::builder().with_policy(policy.with_when_store_fails(mode)).unwrap();
            builder.store_at(&url.parse().unwrap()).unwrap().build()
        };
        Self { mode, through: limiter(through), direct: limiter(direct), told: Told::default(), name }
    }

    fn take(&mut self) {
        match self.through.try_take(&self.name).now() {
            Ok(Taken::Granted(granted)) if granted.degraded() => self.told.without += 1,
            Ok(Taken::Granted(_)) => self.told.by_store += 1,
            Ok(Taken::Denied(denied)) => assert!(denied.degraded(), "{}: the store has room", self.name),
            Err(TakeError::Store(_)) => self.told.errors += 1,
            Err(other) => panic!("{}: {other}", self.name),
        }
    }

    fn takes(&mut self, count: usize) {
        (0..count).for_each(|_| self.take());
    }

    /// What the store must show once everything is settled: the grants callers got, and those made locally.
    fn expected(&self) -> u64 {
        let local = if self.mode == WhenStoreFails::Local { self.told.without } else { 0 };
        self.told.by_store + local
    }

    fn until(&self, what: &str, reached: impl Fn() -> bool) {
        let begun = Instant::now();
        while !reached() {
            let shown = self.direct.usage(&self.name).now();
            let status = self.through.store_status();
            let long = begun.elapsed() > HANGS_AFTER;
            assert!(!long, "{}: never {what}: {:?}, {status:?}, {shown:?}", self.name, self.told);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn run(mut self, proxy: &FaultProxy, fault: Fault) {
        // The first contact may take longer than a deadline on a busy machine; what failed has taken nothing for good.
        self.until("reached the store", || self.through.usage(&self.name).now().is_ok());
        self.takes(10);
        proxy.set(fault);
        let before = self.told;
        self.takes(8);
        self.allowed();
        if !is_bearable(fault) {
            self.all_failed(before);
        }
        proxy.clear();
        self.until("returned", || {
            self.through.store_status().degraded_since.is_none()
                && self.through.usage(&self.name).now().is_ok()
        });
        self.takes(5);
        self.until("exact again", || self.used() == Some(self.expected()));
        let rest =
            (0..LIMIT * 2).take_while(|_| self.direct.try_take(&self.name).now().unwrap().is_granted());
        let rest = rest.count() as u64;
        assert_eq!(self.expected() + rest, LIMIT, "{}: {:?} and {rest}", self.name, self.told);
    }

    fn used(&self) -> Option<u64> {
        Some(self.direct.usage(&self.name).now().ok()?.limits[0].used)
    }

    /// Since then the store has decided nothing, and every caller heard what its policy says instead.
    fn all_failed(&self, before: Told) {
        let Told { by_store, without, errors } = self.told;
        let told = format!("{}: {before:?}, then {:?}", self.name, self.told);
        assert_eq!(by_store, before.by_store, "{told}");
        match self.mode {
            WhenStoreFails::Open => assert_eq!(without - before.without, 8, "{told}"),
            WhenStoreFails::Closed => assert_eq!(errors - before.errors, 8, "{told}"),
            // A tenth of the hundred, of which a busy machine may have spent some before.
            WhenStoreFails::Local => assert_eq!(without, 10.min(before.without + 8), "{told}"),
        }
    }

    fn allowed(&self) {
        let Told { without, errors, .. } = self.told;
        match self.mode {
            WhenStoreFails::Open => assert_eq!(errors, 0, "{}", self.name),
            WhenStoreFails::Closed => assert_eq!(without, 0, "{}", self.name),
            WhenStoreFails::Local => assert!(errors == 0 && without <= 10, "{}: {:?}", self.name, self.told),
        }
    }
}

/// All cases at the same time: nearly all of it is waiting. `url` ends so that `deadline=..` may follow. The limiter that
/// checks the result has a deadline that no busy machine exceeds.
fn all_cases(store: &str, server: SocketAddr, url: impl Fn(SocketAddr) -> String + Sync) {
    std::thread::scope(|scope| {
        for (number, fault) in faults().into_iter().enumerate() {
            for mode in MODES {
                let (name, url) = (format!("{store}-{number}-{mode:?}"), &url);
                scope.spawn(move || {
                    let proxy = FaultProxy::to(server);
                    let through = format!("{}deadline=1s", url(proxy.addr()));
                    let direct = format!("{}deadline=30s", url(server));
                    Case::new(name, mode, &through, &direct).run(&proxy, fault);
                });
            }
        }
    });
}

#[test]
fn redis_survives_every_fault_in_every_mode() {
    let redis = RedisServer::start();
    all_cases("redis", redis.addr(), |addr| format!("redis://{addr}/0?"));
}

#[test]
fn postgres_survives_every_fault_in_every_mode() {
    let postgres = PostgresServer::start_with(&["max_connections=300"]);
    let (url, own) = (postgres.url(), postgres.addr().to_string());
    assert!(url.contains(&own), "{url}");
    let join = if url.contains('?') { '&' } else { '?' };
    all_cases("postgres", postgres.addr(), |addr| {
        format!("{}{join}connections=1&", url.replace(&own, &addr.to_string()))
    });
}

/// G7, G9.
#[cfg(feature = "dynamodb")]
#[test]
fn dynamodb_survives_every_fault_in_every_mode() {
    let dynamo = tollway_testkit::servers::DynamoServer::start();
    all_cases("dynamodb", dynamo.addr(), |addr| {
        format!("{}&", tollway_testkit::servers::DynamoServer::url_through(addr, "toxics"))
    });
}

/// A frozen server (SIGSTOP) takes connections and answers nothing; the caller hears all the same.
#[test]
fn a_frozen_server_opens_the_breaker() {
    let redis = RedisServer::start();
    let url = format!("{}?deadline=300ms", redis.url());
    let mut case = Case::new("frozen".to_owned(), WhenStoreFails::Closed, &url, &redis.url());
    case.until("reached the store", || case.through.usage(&case.name).now().is_ok());
    case.takes(5);
    redis.pause();
    case.takes(5);
    assert!(case.told.errors >= 1, "{:?}", case.told);
    redis.resume();
    case.until("returned", || case.through.store_status().degraded_since.is_none());
    case.until("exact again", || case.used() == Some(case.expected()));
}

/// A program starts without its store, and has it when it comes.
#[test]
fn a_program_starts_without_its_store() {
    let redis = RedisServer::start();
    redis.kill();
    let url = format!("{}?deadline=300ms", redis.url());
    let mut case = Case::new("absent".to_owned(), WhenStoreFails::Local, &url, &url);
    case.takes(4);
    assert_eq!((case.told.without, case.told.by_store), (4, 0));
    redis.restart();
    case.until("returned", || case.through.store_status().degraded_since.is_none());
    case.until("exact again", || case.used() == Some(case.expected()));
}
