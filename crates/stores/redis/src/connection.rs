//! Connections: made when they are needed, shared by all calls, and given up as soon as one of them fails.
//!
//! A command is never sent twice by itself, but on a Cluster, whose client may follow a moved slot; there, as everywhere,
//! the call's sequence makes it count once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, RedisResult, Value,
};
use tokio::sync::Mutex;
use tollway_core::StoreError;

use crate::address::{Address, Kind, Layout};
use crate::error::{not_connected, wrong};
use crate::primary::Primary;
use crate::{tls, version};

/// How often a Cluster's client may follow a slot that has moved.
const CLUSTER_RETRIES: u32 = 3;

/// The shared connection, if there is one.
pub(crate) struct Connections {
    server: Server,
    timeout: Duration,
    open: Mutex<Option<Connection>>,
    made: AtomicU64,
    /// The number of the last primary; 0 before the first.
    primary: AtomicU64,
    layout: Layout,
}

enum Server {
    One(Box<Client>),
    Cluster(Box<ClusterClient>),
    Sentinel(Box<Mutex<SentinelClient>>),
}

/// A connection that all calls share.
#[derive(Clone)]
pub(crate) struct Connection {
    number: u64,
    primary: Option<Primary>,
    wire: Wire,
}

#[derive(Clone)]
enum Wire {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connections {
    /// Connects nowhere yet. Nothing waits for the server longer than `timeout`.
    pub(crate) fn new(address: &Address, timeout: Duration) -> Result<Self, StoreError> {
        let server = server(address, timeout).map_err(|error| wrong(format!("the store's URL: {error}")))?;
        let layout = address.layout;
        let (made, primary) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { server, timeout, open: Mutex::new(None), made, primary, layout })
    }

    /// The connection that is open, or a new one to a server that knows the layout's commands.
    pub(crate) async fn get(&self) -> Result<Connection, StoreError> {
        let mut open = self.open.lock().await;
        if let Some(connection) = &*open {
            return Ok(connection.clone());
        }
        let mut connection = self.new_connection().await?;
        if let Some(error) = version::too_old(&mut connection, self.layout).await? {
            return Err(error);
        }
        connection.primary = Primary::of(&mut connection).await;
        self.note_primary(connection.primary);
        *open = Some(connection.clone());
        Ok(connection)
    }

    /// The error if the server is too old for the layout. A server that cannot be reached may come later.
    pub(crate) async fn too_old(&self) -> Option<StoreError> {
        let mut connection = self.new_connection().await.ok()?;
        version::too_old(&mut connection, self.layout).await.ok().flatten()
    }

    async fn new_connection(&self) -> Result<Connection, StoreError> {
        let connect = tokio::time::timeout(self.timeout, self.connect());
        let wire = match connect.await {
            Ok(wire) => wire.map_err(|error| not_connected(&error))?,
            Err(_) => return Err(not_connected(&std::io::Error::from(std::io::ErrorKind::TimedOut).into())),
        };
        Ok(Connection { number: self.made.fetch_add(1, Ordering::Relaxed), primary: None, wire })
    }

    /// Warns of a primary that may have forgotten the last writes.
    fn note_primary(&self, primary: Option<Primary>) {
        let Some(primary) = primary.map(Primary::number) else { return };
        let before = self.primary.swap(primary, Ordering::Relaxed);
        if before != 0 && before != primary {
            tracing::warn!(
                "another primary answers in Redis, or it has started again: it may have forgotten the last writes; \
                 it is told what was last read of each account before the next take of it"
            );
        }
    }

    /// Gives a connection up that has failed: the next call makes a new one.
    pub(crate) async fn give_up(&self, failed: &Connection) {
        let mut open = self.open.lock().await;
        if open.as_ref().is_some_and(|open| open.number == failed.number) {
            *open = None;
        }
    }

    async fn connect(&self) -> RedisResult<Wire> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        match &self.server {
            Server::One(client) => {
                client.get_multiplexed_async_connection_with_config(&config).await.map(Wire::One)
            }
            Server::Cluster(client) => client.get_async_connection().await.map(Wire::Cluster),
            Server::Sentinel(client) => {
                client.lock().await.get_async_connection_with_config(&config).await.map(Wire::One)
            }
        }
    }
}

impl Connection {
    /// Its number among those of this process.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The primary that it leads to, if it said which it is.
    pub(crate) fn primary(&self) -> Option<Primary> {
        self.primary
    }

    /// Whether it leads to several servers, each of which has some of the keys.
    pub(crate) fn has_nodes(&self) -> bool {
        matches!(self.wire, Wire::Cluster(_))
    }

    /// Sends the commands together and answers each; on one server in one go, on a Cluster each to its node.
    pub(crate) async fn send(&mut self, commands: Vec<Cmd>) -> Vec<RedisResult<Value>> {
        match &mut self.wire {
            Wire::One(connection) => {
                let count = commands.len();
                let mut pipeline = Pipeline::with_capacity(count);
                for command in commands {
                    pipeline.add_command(command);
                }
                match connection.send_packed_commands(&pipeline, 0, count).await {
                    Ok(values) => values.into_iter().map(Ok).collect(),
                    Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
                }
            }
            Wire::Cluster(connection) => {
                let send = |command: Cmd| {
                    let mut connection = connection.clone();
                    async move { connection.req_packed_command(&command).await }
                };
                join_all(commands.into_iter().map(send)).await
            }
        }
    }
}

fn server(address: &Address, timeout: Duration) -> RedisResult<Server> {
    match &address.kind {
        Kind::One => {
            let Some(info) = nodes(address)?.into_iter().next() else {
                return Err(std::io::Error::from(std::io::ErrorKind::InvalidInput).into());
            };
            tls::client(info, address).map(|client| Server::One(Box::new(client)))
        }
        Kind::Cluster => {
            let builder = ClusterClient::builder(nodes(address)?)
                .retries(CLUSTER_RETRIES)
                .connection_timeout(timeout)
                .response_timeout(timeout)
                .overall_response_timeout(Some(timeout))
                .tcp_settings(tcp_settings());
            Ok(Server::Cluster(Box::new(tls::cluster(builder, address)?.build()?)))
        }
        Kind::Sentinel { master } => {
            let hosts = address.hosts.iter().map(|host| node_address(host, address.tls));
            let mut builder = SentinelClientBuilder::new(hosts, master, SentinelServerType::Master)?
                .set_client_to_redis_db(address.database)
                .set_client_to_redis_tcp_settings(tcp_settings());
            if let Some(user) = &address.user {
                builder = builder.set_client_to_redis_username(user);
            }
            if let Some(password) = &address.password {
                builder = builder.set_client_to_redis_password(password);
            }
            Ok(Server::Sentinel(Box::new(Mutex::new(tls::sentinel(builder, address)?.build()?))))
        }
    }
}

fn nodes(address: &Address) -> RedisResult<Vec<ConnectionInfo>> {
    let mut settings = RedisConnectionInfo::default().set_db(address.database);
    if let Some(user) = &address.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &address.password {
        settings = settings.set_password(password);
    }
    let node = |host| {
        let info = node_address(host, address.tls).into_connection_info()?;
        Ok(info.set_redis_settings(settings.clone()).set_tcp_settings(tcp_settings()))
    };
    address.hosts.iter().map(node).collect()
}

fn node_address((host, port): &(String, u16), tls: bool) -> ConnectionAddr {
    if tls {
        ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host.clone(), *port)
    }
}

/// A call is small and a caller waits for it.
fn tcp_settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}
