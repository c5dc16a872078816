//! A server with consumers, and helpers for calls, management and time.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;
use tollway::Limiter;
use tollway::core::{Period, Span, Timestamp};
use tollway_consumers::read_date;
use tollway_server::{ConfigWithServer, Token};
use tollway_testkit::ManualClock;
use tollway_testkit::servers::RedisServer;

use crate::client::{Answer, Client};
use crate::log::Log;
use crate::running::{LONG, Running, Setup};

pub(crate) const READ: &str = "read-read-read-read";
pub(crate) const WRITE: &str = "write-write-write-write";

/// The path of consumer management.
pub(crate) const CONSUMERS: &str = "/obp/v6.0.0/management/consumers";

/// The initial time of a bank in memory.
pub(crate) const BEGIN: &str = "2026-06-01T12:00:00Z";

/// No period is limited.
pub(crate) const UNLIMITED: [i64; 6] = [-1; 6];

/// A server with consumers.
pub(crate) struct Bank {
    pub(crate) running: Running,
    pub(crate) place: Place,
    /// Contains the records and all other files of the config.
    _folder: Arc<TempDir>,
    client: Client,
    admin: Client,
}

/// The store.
pub(crate) enum Place {
    Memory(Arc<ManualClock>),
    Redis(Arc<RedisServer>),
}

impl Place {
    /// In memory, with a manual clock.
    pub(crate) fn memory() -> Self {
        Self::Memory(Arc::new(ManualClock::at(begin())))
    }

    /// In a Redis of its own.
    pub(crate) fn redis() -> Self {
        Self::Redis(Arc::new(RedisServer::start()))
    }
}

pub(crate) fn begin() -> Timestamp {
    read_date(BEGIN).unwrap().timestamp()
}

/// One bank in memory and one in Redis, with these lines in `[consumers]`.
pub(crate) fn banks(consumers: &str) -> [Bank; 2] {
    [Place::memory(), Place::redis()].map(|place| Bank::at(place, consumers, ""))
}

/// What a bank is started with.
pub(crate) struct Plan<'a> {
    pub(crate) place: Place,
    /// The folder of its records.
    pub(crate) folder: Arc<TempDir>,
    /// Lines of `[consumers]`.
    pub(crate) consumers: &'a str,
    /// Sections after it.
    pub(crate) more: &'a str,
    /// The timeout of Redis.
    pub(crate) deadline: &'a str,
    pub(crate) log: Option<Log>,
}

impl<'a> Plan<'a> {
    /// The defaults, with a timeout that a busy machine does not exceed.
    pub(crate) fn at(place: Place) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        Self { place, folder, consumers: "", more: "", deadline: "20s", log: None }
    }

    pub(crate) fn start(self) -> Bank {
        let mut setup = self.setup();
        setup.timeouts.wrong_token = std::time::Duration::ZERO;
        setup.config.read_token = token(&self.folder, READ);
        setup.config.write_token = token(&self.folder, WRITE);
        setup.log = self.log;
        let running = setup.start();
        let (client, admin) = (running.client(), running.admin());
        Bank { running, place: self.place, _folder: self.folder, client, admin }
    }

    fn setup(&self) -> Setup {
        let Self { place, folder, consumers, more, deadline, .. } = self;
        let store = match place {
            Place::Memory(_) => "memory:".to_owned(),
            Place::Redis(redis) => format!("{}/0?layout=consumers&deadline={deadline}", redis.url()),
        };
        let text = format!(
            "[store]\nurl = \"{store}\"\n[consumers]\nrecords = \"sqlite:{}/records.db\"\n\
             header = \"X-Consumer-Id\"\n{consumers}\n{more}\n",
            folder.path().display()
        );
        let mut setup = Setup::of(&text);
        if let Place::Memory(clock) = place {
            let config = ConfigWithServer::parse(&text).unwrap();
            setup.limiter =
                Limiter::builder().metrics().clock(clock.clone()).config(config.limits()).unwrap().build();
        }
        setup
    }
}

impl Bank {
    /// With these lines in `[consumers]`, and these after it.
    pub(crate) fn at(place: Place, consumers: &str, more: &str) -> Self {
        Plan { consumers, more, ..Plan::at(place) }.start()
    }

    /// A call of this consumer through a proxy.
    pub(crate) fn call(&mut self, consumer: &str) -> Answer {
        self.call_with(&format!("x-consumer-id: {consumer}\r\n"))
    }

    /// A call with these headers.
    pub(crate) fn call_with(&mut self, headers: &str) -> Answer {
        self.client.get("/v1/authorize", headers)
    }

    /// The statuses of this many calls.
    pub(crate) fn calls(&mut self, consumer: &str, calls: usize) -> Vec<u16> {
        (0..calls).map(|_| self.call(consumer).status).collect()
    }

    /// Queries the administration with the write token.
    pub(crate) fn manage(&mut self, method: &str, path: &str, body: &str) -> Answer {
        self.admin.ask(method, path, &format!("authorization: Bearer {WRITE}\r\n"), body)
    }

    /// Reads a resource of a consumer.
    pub(crate) fn look(&mut self, consumer: &str, what: &str) -> Value {
        let answer = self.manage("GET", &format!("{CONSUMERS}/{consumer}/{what}"), "");
        assert_eq!(answer.status, 200, "{what}: {answer:?}");
        answer.json()
    }

    /// Creates a record with these amounts and returns its id.
    pub(crate) fn record(&mut self, consumer: &str, amounts: [i64; 6]) -> String {
        self.record_of(consumer, &record(amounts))
    }

    /// Creates this record and returns its id.
    pub(crate) fn record_of(&mut self, consumer: &str, record: &Value) -> String {
        let path = format!("{CONSUMERS}/{consumer}/consumer/rate-limits");
        let made = self.manage("POST", &path, &record.to_string());
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["rate_limiting_id"].as_str().unwrap().to_owned()
    }

    /// Changes the amounts of a record.
    pub(crate) fn change(&mut self, consumer: &str, id: &str, amounts: [i64; 6]) {
        let path = format!("{CONSUMERS}/{consumer}/consumer/rate-limits/{id}");
        let changed = self.manage("PUT", &path, &record(amounts).to_string());
        assert_eq!(changed.status, 200, "{changed:?}");
    }

    /// Lets a period of this consumer end: in memory by the clock, in Redis by expiring its key.
    pub(crate) fn pass(&self, consumer: &str, period: Period) {
        match &self.place {
            Place::Memory(clock) => clock.advance(period.span()),
            Place::Redis(redis) => {
                redis.command(&["PEXPIRE", &key(consumer, period), "1"]);
                let begun = Instant::now();
                while redis.command(&["EXISTS", &key(consumer, period)]) != "0" {
                    assert!(begun.elapsed() < LONG, "the key does not expire");
                }
            }
        }
    }

    /// Makes a first call and extends the second's window, which could otherwise end on a busy machine.
    pub(crate) fn first_call_in_a_long_second(&mut self, consumer: &str) {
        until("the second is extended", || {
            assert_eq!(self.call(consumer).status, 200);
            let Place::Redis(redis) = &self.place else { return true };
            let lasts = redis.command(&["PEXPIRE", &key(consumer, Period::Second), "600000"]) == "1";
            if !lasts {
                // The window ended first: delete the counters and retry.
                for period in Period::ALL {
                    redis.command(&["DEL", &key(consumer, period)]);
                }
            }
            lasts
        });
    }

    /// The Redis of this bank.
    pub(crate) fn redis(&self) -> &RedisServer {
        match &self.place {
            Place::Redis(redis) => redis,
            Place::Memory(_) => panic!("this bank counts in memory"),
        }
    }

    /// Moves the clock of a bank in memory.
    pub(crate) fn advance(&self, span: Span) {
        match &self.place {
            Place::Memory(clock) => clock.advance(span),
            Place::Redis(_) => panic!("the clock of Redis cannot be moved"),
        }
    }
}

/// The key of a counter.
pub(crate) fn key(consumer: &str, period: Period) -> String {
    format!("{consumer}_PER_{}", period.to_string().to_uppercase())
}

fn token(folder: &TempDir, secret: &str) -> Option<Token> {
    let path = folder.path().join(secret);
    std::fs::write(&path, secret).unwrap();
    Some(Token::File(path))
}

/// A record of these amounts, valid now by any clock of these tests.
pub(crate) fn record(amounts: [i64; 6]) -> Value {
    let mut record = json!({"from_date": "2020-01-01T00:00:00Z", "to_date": "2099-12-31T23:59:59Z"});
    for (period, amount) in Period::ALL.into_iter().zip(amounts) {
        record[format!("per_{period}_call_limit")] = amount.to_string().into();
    }
    record
}

/// Only this period is limited.
pub(crate) fn only(period: Period, amount: i64) -> [i64; 6] {
    Period::ALL.map(|known| if known == period { amount } else { -1 })
}

/// Whether `reset` can be the time left in a period that has just begun.
pub(crate) fn is_whole(reset: u64, period: Period) -> bool {
    let whole = period.span().as_micros() / 1_000_000;
    // No test takes longer than 30 s between two calls.
    (whole.saturating_sub(30)..=whole).contains(&reset)
}

/// The three headers of a limit: limit, remaining, seconds until reset.
pub(crate) fn told(answer: &Answer) -> Option<[u64; 3]> {
    let number = |name| Some(answer.header(name)?.parse().unwrap());
    Some([number("x-rate-limit-limit")?, number("x-rate-limit-remaining")?, number("x-rate-limit-reset")?])
}

/// Waits until a condition holds, or fails the test.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "timed out: {what}");
        std::thread::yield_now();
    }
}
