//! The commands of limitador's Redis store, reimplemented on the client that Tollway uses: a script reads value and TTL of
//! each counter, the client compares, then a pipeline runs one incrementing script per counter. limitador's keys are longer.
//! As in limitador, two concurrent callers can both get the last unit.

use std::sync::Arc;

use anyhow::Result;
use redis::aio::MultiplexedConnection;
use redis::{Script, cmd, pipe};

use super::connection::connect;
use crate::stores::callers::{Caller, Entrant, Stage};
use crate::stores::periods::{PLENTY, Period};

/// Value and TTL in milliseconds of every key, alternating.
const READ: &str = "
local found = {}
for at, key in ipairs(KEYS) do
    found[2 * at - 1] = redis.call('GET', key)
    found[2 * at] = redis.call('PTTL', key)
end
return found";

/// Increments a counter; a new one gets a TTL and joins the set of the limit's counters.
const ADD: &str = "
local count = redis.call('INCRBY', KEYS[1], ARGV[2])
if count == tonumber(ARGV[2]) then
    redis.call('EXPIRE', KEYS[1], ARGV[1], 'NX')
    redis.call('SADD', KEYS[2], KEYS[1])
end
return count";

#[derive(Clone)]
pub(super) struct ByHand {
    connection: MultiplexedConnection,
    periods: &'static [Period],
    read: Arc<str>,
    add: Arc<str>,
}

impl Entrant for ByHand {
    type Caller = Self;

    async fn start(stage: &Stage) -> Result<Self> {
        let mut connection = connect(&stage.url).await?;
        let read = Script::new(READ).load_async(&mut connection).await?.into();
        let add = Script::new(ADD).load_async(&mut connection).await?.into();
        Ok(Self { connection, periods: stage.periods, read, add })
    }

    fn caller(&self, _number: usize) -> Self {
        self.clone()
    }
}

impl Caller for ByHand {
    async fn take(&mut self, subject: &str) -> Result<bool> {
        let counters: Vec<String> = self.periods.iter().map(|period| period.counter_of(subject)).collect();
        let mut read = cmd("EVALSHA");
        read.arg(&*self.read).arg(counters.len()).arg(&counters);
        let found: Vec<Option<i64>> = read.query_async(&mut self.connection).await?;
        let used = found.chunks(2).map(|pair| pair[0].unwrap_or(0).unsigned_abs());
        if used.max().unwrap_or(0) + 1 > PLENTY {
            return Ok(false);
        }
        let mut add = pipe();
        for (counter, period) in counters.iter().zip(self.periods) {
            let counters_of_limit = period.counter_of("counters");
            add.cmd("EVALSHA").arg(&*self.add).arg(2).arg(counter).arg(counters_of_limit);
            add.arg(period.seconds).arg(1).ignore();
        }
        let () = add.query_async(&mut self.connection).await?;
        Ok(true)
    }
}
