//! Commands one after the other, as a widely used bank API documents its limits: for each period `GET` and compare, then
//! for each period `TTL` and `INCR`, or `SETEX` if there is no counter. Each caller has its own
//! connection, as from a large pool.

use anyhow::Result;
use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, cmd};

use super::connection::connect;
use crate::stores::callers::{Caller, Entrant, Stage};
use crate::stores::periods::{PLENTY, Period};

pub(super) const SENDS: &[&str] = &["get", "ttl", "incr", "setex"];

/// The `TTL` of a missing key.
const NO_KEY: i64 = -2;

pub(super) struct Documented {
    connections: Vec<MultiplexedConnection>,
    periods: &'static [Period],
}

pub(super) struct Client {
    connection: MultiplexedConnection,
    periods: &'static [Period],
}

impl Entrant for Documented {
    type Caller = Client;

    async fn start(stage: &Stage) -> Result<Self> {
        let connections = try_join_all((0..stage.callers).map(|_| connect(&stage.url))).await?;
        Ok(Self { connections, periods: stage.periods })
    }

    fn caller(&self, number: usize) -> Client {
        Client { connection: self.connections[number].clone(), periods: self.periods }
    }
}

impl Caller for Client {
    async fn take(&mut self, subject: &str) -> Result<bool> {
        for period in self.periods {
            let used: Option<u64> = self.connection.get(period.counter_of(subject)).await?;
            if used.unwrap_or(0) + 1 > PLENTY {
                return Ok(false);
            }
        }
        for period in self.periods {
            let counter = period.counter_of(subject);
            let left: i64 = self.connection.ttl(&counter).await?;
            if left == NO_KEY {
                let () = self.connection.set_ex(counter, 1, period.seconds).await?;
            } else {
                let _: u64 = cmd("INCR").arg(counter).query_async(&mut self.connection).await?;
            }
        }
        Ok(true)
    }
}
