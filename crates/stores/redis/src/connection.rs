//! A connection to one server, which all calls share. It sends each command once: what is sent again is sent by its caller, and
//! the call's sequence makes it count once.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};

use crate::primary::Primary;

/// A connection that all calls share.
#[derive(Clone)]
pub(crate) struct Connection {
    number: u64,
    primary: Option<Primary>,
    wire: MultiplexedConnection,
}

impl Connection {
    pub(crate) fn new(number: u64, wire: MultiplexedConnection) -> Self {
        Self { number, primary: None, wire }
    }

    /// Asks the server which primary it is.
    pub(crate) async fn identify(&mut self) {
        self.primary = Primary::of(self).await;
    }

    /// Its number among those of this process to this server.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The primary that it leads to, if it said which it is.
    pub(crate) fn primary(&self) -> Option<Primary> {
        self.primary
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
