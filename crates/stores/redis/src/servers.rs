//! The servers of a store: one, or the nodes of a Cluster.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, RedisResult, Value};
use tollway_core::StoreError;

use crate::address::{Address, Kind};
use crate::cluster::{Cluster, Redirect, slot};
use crate::error::{answered, not_answered, not_understood};
use crate::link::is_broken;
use crate::node::Node;

/// How often one command follows slots that move.
const REDIRECTS_MAX: usize = 5;

/// Where calls go.
pub(crate) enum Servers {
    One(Arc<Node>),
    Cluster(Arc<Cluster>),
}

impl Servers {
    /// Connects nowhere yet. Nothing waits for a server longer than `timeout`.
    pub(crate) fn new(address: &Address, timeout: Duration) -> Result<Self, StoreError> {
        Ok(match &address.kind {
            Kind::One | Kind::Sentinel { .. } => Self::One(Arc::new(Node::only(address, timeout)?)),
            Kind::Cluster => Self::Cluster(Arc::new(Cluster::new(address, timeout))),
        })
    }

    pub(crate) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match self {
            Self::One(_) => None,
            Self::Cluster(cluster) => Some(cluster),
        }
    }

    /// The server that has this key.
    pub(crate) async fn of_key(&self, key: &str) -> Result<Arc<Node>, StoreError> {
        match self {
            Self::One(node) => Ok(Arc::clone(node)),
            Self::Cluster(cluster) => cluster.node_of(slot::of_key(key)).await,
        }
    }

    /// All that have keys, as far as they are known.
    pub(crate) fn all(&self) -> Vec<Arc<Node>> {
        match self {
            Self::One(node) => vec![Arc::clone(node)],
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// Gives a connection up that failed, and looks where the slots are now.
    pub(crate) async fn note_answers(
        &self,
        node: &Node,
        connection: &crate::connection::Connection,
        answers: &[RedisResult<Value>],
    ) {
        if answers.iter().any(is_broken) {
            node.give_up(connection).await;
            self.refresh();
        }
    }

    /// A node failed: its slots may have moved.
    pub(crate) fn refresh(&self) {
        if let Self::Cluster(cluster) = self {
            cluster.refresh();
        }
    }

    /// Sends one command about this key to the server that has it, wherever that is now.
    pub(crate) async fn ask(&self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        let mut redirect = None;
        for _ in 0..=REDIRECTS_MAX {
            let (answer, node) = self.send_to(redirect.take(), key, command).await?;
            let Some(cluster) = self.cluster() else { return read(answer) };
            match Redirect::of(&answer, &node) {
                Some(found) => redirect = cluster.follow(found),
                None => return read(answer),
            }
        }
        Err(answered("TRYAGAIN", "its slot is moving"))
    }

    async fn send_to(
        &self,
        asked: Option<Arc<Node>>,
        key: &str,
        command: &Cmd,
    ) -> Result<(RedisResult<Value>, Arc<Node>), StoreError> {
        let mut commands = Vec::new();
        let node = match asked {
            Some(node) => {
                commands.push(redis::cmd("ASKING"));
                node
            }
            None => self.of_key(key).await?,
        };
        commands.push(command.clone());
        let mut connection = match node.get().await {
            Ok(connection) => connection,
            Err(error) => {
                self.refresh();
                return Err(error);
            }
        };
        let mut answers = connection.send(commands).await;
        self.note_answers(&node, &connection, &answers).await;
        let answer = answers.pop().ok_or_else(|| not_understood("no answer at all"))?;
        Ok((answer, node))
    }
}

fn read(answer: RedisResult<Value>) -> Result<Value, StoreError> {
    match answer {
        Ok(Value::ServerError(error)) => Err(answered(error.code(), error.details().unwrap_or_default())),
        Ok(value) => Ok(value),
        Err(error) => Err(not_answered(&error)),
    }
}
