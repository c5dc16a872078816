//! Sends calls to the script and reads its answers.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisResult, Value};
use tollway_core::{Clock, Outcomes, StoreError, Timestamp};
use tollway_remote::{Call, Link};

use crate::address::Address;
use crate::bundle::{Bundle, Try};
use crate::clock::WallClock;
use crate::connection::Connections;
use crate::error::not_understood;
use crate::keys::Keys;
use crate::request::{GRACE, Requests};
use crate::windows::Calendars;

/// How often a call is sent until the script has all it needs: its own text, and calendar windows it asked for.
const ROUNDS_MAX: usize = 8;

/// How long the lines of a clock in a test's hand are kept beyond their end: that clock may stand still.
const TEST_GRACE: Duration = Duration::from_secs(600);

/// Sends calls to a script in Redis. One process has one; its name as a writer is drawn at random.
pub struct RedisLink {
    connections: Connections,
    requests: Requests,
    /// A clock in a test's hand, in place of the server's.
    test_clock: Option<Arc<dyn Clock>>,
}

impl RedisLink {
    /// A link to the store at this address. It connects with the first call.
    pub fn new(address: &Address) -> Result<Self, StoreError> {
        Self::with_clock(address, None)
    }

    /// The same for tests: the store's time is this clock's, not the server's.
    pub fn with_test_clock(address: &Address, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::with_clock(address, Some(clock))
    }

    fn with_clock(address: &Address, test_clock: Option<Arc<dyn Clock>>) -> Result<Self, StoreError> {
        let grace = if test_clock.is_some() { TEST_GRACE } else { GRACE };
        Ok(Self {
            // A server that does not answer is noticed while there is time to ask once more.
            connections: Connections::new(address, address.deadline / 2)?,
            requests: Requests {
                keys: Keys::new(&address.prefix, draw_writer()),
                grace,
                calendars: Calendars::default(),
            },
            test_clock,
        })
    }

    /// Sends what has no result yet, once.
    async fn round(&self, tries: &mut [Try]) {
        let mut connection = match self.connections.get().await {
            Ok(connection) => connection,
            Err(error) => {
                let open = tries.iter_mut().filter(|one| one.result.is_none());
                return open.for_each(|one| one.result = Some(Err(error.clone())));
            }
        };
        let now = self.test_clock.as_ref().map(|clock| clock.now());
        let bundles = Bundle::all(tries, connection.has_nodes());
        let commands = bundles.iter().map(|bundle| bundle.command(&self.requests, now)).collect();
        let answers = connection.send(commands).await;
        if answers.iter().any(is_broken) {
            self.connections.give_up(&connection).await;
        }
        bundles.into_iter().zip(answers).for_each(|(bundle, answer)| bundle.hear(answer));
    }

    fn now(&self) -> Timestamp {
        self.test_clock.as_ref().map_or_else(|| WallClock.now(), |clock| clock.now())
    }
}

impl Link for RedisLink {
    async fn send(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        let now = self.now();
        let mut tries: Vec<Try> = calls.into_iter().map(|call| Try::new(call, now)).collect();
        for _ in 0..ROUNDS_MAX {
            if tries.iter().all(|try_| try_.result.is_some()) {
                break;
            }
            self.round(&mut tries).await;
        }
        let unfinished = || Err(not_understood("it asks for one calendar window after the other"));
        tries.into_iter().map(|try_| try_.result.unwrap_or_else(unfinished)).collect()
    }
}

/// What the server calls its error, if it answered with one.
pub(crate) fn error_code(answer: &RedisResult<Value>) -> Option<&str> {
    match answer {
        Ok(Value::ServerError(error)) => Some(error.code()),
        Ok(_) => None,
        Err(error) => error.code(),
    }
}

/// Whether the connection is of no use any more: it failed, or leads to a server that is no longer the master.
pub(crate) fn is_broken(answer: &RedisResult<Value>) -> bool {
    let demoted = |value: &Value| matches!(value, Value::ServerError(error) if error.code() == "READONLY");
    match answer {
        Ok(Value::Array(answers)) => answers.iter().any(demoted),
        Ok(value) => demoted(value),
        Err(error) => error.code().is_none_or(|code| code == "READONLY"),
    }
}

/// A writer that nobody else is.
pub(crate) fn draw_writer() -> u128 {
    let half = || u128::from(RandomState::new().build_hasher().finish());
    half() << 64 | half()
}
