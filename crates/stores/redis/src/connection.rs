//! A connection to one server, which all calls share. It sends each command once: what is sent again is sent by its caller, and
//! the call's sequence makes it count once.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Pipeline, RedisResult, Value};

/// A connection that all calls share.
#[derive(Clone)]
pub(crate) struct Connection {
    number: u64,
    wire: MultiplexedConnection,
    run_id: Option<Arc<str>>,
}

impl Connection {
    /// Asks the server once which one it is.
    pub(crate) async fn new(number: u64, wire: MultiplexedConnection) -> RedisResult<Self> {
        let mut connection = Self { number, wire, run_id: None };
        let mut info = redis::cmd("INFO");
        info.arg("server");
        let Some(answer) = connection.send(vec![info]).await.pop() else { return Ok(connection) };
        // A user without the right to ask is not told.
        connection.run_id = answer?.extract_error().ok().and_then(run_id);
        Ok(connection)
    }

    /// The run id of the server's process: another one after a restart, and on another server. `None`: the user may not run
    /// `INFO`.
    #[allow(dead_code, reason = "for readings that a new server has lost")]
    pub(crate) fn run_id(&self) -> Option<&Arc<str>> {
        self.run_id.as_ref()
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.number == other.number
    }

    /// Sends the commands in one go and answers each.
    pub(crate) async fn send(&mut self, commands: Vec<Cmd>) -> Vec<RedisResult<Value>> {
        let count = commands.len();
        let mut pipeline = Pipeline::with_capacity(count);
        for command in commands {
            pipeline.add_command(command);
        }
        match self.wire.send_packed_commands(&pipeline, 0, count).await {
            Ok(values) => values.into_iter().map(Ok).collect(),
            Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
        }
    }
}

fn run_id(info: Value) -> Option<Arc<str>> {
    let text = String::from_redis_value(info).ok()?;
    text.lines().find_map(|line| line.strip_prefix("run_id:")).map(|id| Arc::from(id.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_id_is_read() {
        let info = |text: &str| run_id(Value::BulkString(text.as_bytes().to_vec()));
        assert_eq!(
            info("# Server\r\nprocess_id:7\r\nrun_id:4ac1\r\ntcp_port:1\r\n").as_deref(),
            Some("4ac1")
        );
        assert_eq!(info("# Server\r\n"), None);
    }
}
