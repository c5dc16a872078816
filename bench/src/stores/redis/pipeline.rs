//! The minimum that counts: a pipeline of `INCR` and `EXPIRE NX` per limit that checks only for errors. Not a limiter: it
//! charges denied takes, too.

use anyhow::Result;
use redis::aio::MultiplexedConnection;
use redis::pipe;

use super::connection::connect;
use crate::stores::callers::{Caller, Entrant, Stage};
use crate::stores::periods::Period;

pub(super) const SENDS: &[&str] = &["incr", "expire"];

#[derive(Clone)]
pub(super) struct Pipeline {
    connection: MultiplexedConnection,
    periods: &'static [Period],
}

impl Entrant for Pipeline {
    type Caller = Self;

    async fn start(stage: &Stage) -> Result<Self> {
        Ok(Self { connection: connect(&stage.url).await?, periods: stage.periods })
    }

    fn caller(&self, _number: usize) -> Self {
        self.clone()
    }
}

impl Caller for Pipeline {
    async fn take(&mut self, subject: &str) -> Result<bool> {
        let mut pipeline = pipe();
        for period in self.periods {
            let counter = period.counter_of(subject);
            pipeline.cmd("INCR").arg(&counter);
            pipeline.cmd("EXPIRE").arg(counter).arg(period.seconds).arg("NX").ignore();
        }
        let counts: Vec<u64> = pipeline.query_async(&mut self.connection).await?;
        Ok(counts.len() == self.periods.len())
    }
}
