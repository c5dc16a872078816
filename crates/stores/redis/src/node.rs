//! One server, and the connection that all calls to it share: made when it is needed, given up as soon as it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, RedisResult,
};
use tokio::sync::Mutex;
use tollway_core::StoreError;

use crate::address::{Address, Kind, Layout};
use crate::cluster::Host;
use crate::connection::Connection;
use crate::error::{not_connected, wrong};
use crate::primary::Primary;
use crate::{tls, version};

/// A server, and the shared connection to it, if there is one.
pub(crate) struct Node {
    /// Its host and port; the master that Sentinels name has none of its own.
    name: Arc<str>,
    client: NodeClient,
    timeout: Duration,
    open: Mutex<Option<Connection>>,
    made: AtomicU64,
    /// The number of the last primary; 0 before the first.
    primary: AtomicU64,
    layout: Layout,
    /// Whether a script may reach keys that its command does not name.
    takes_unnamed_keys: AtomicBool,
}

enum NodeClient {
    At(Box<Client>),
    Sentinel(Box<Mutex<SentinelClient>>),
}

impl Node {
    /// The server of an address that is not a Cluster. It connects with the first call; nothing waits for it longer than
    /// `timeout`.
    pub(crate) fn only(address: &Address, timeout: Duration) -> Result<Self, StoreError> {
        let client = match &address.kind {
            Kind::Sentinel { master } => sentinel(address, master),
            Kind::One | Kind::Cluster => match address.hosts.first() {
                Some(host) => client_at(address, host),
                None => Err(std::io::Error::from(std::io::ErrorKind::InvalidInput).into()),
            },
        };
        Self::new(client, "", address, timeout)
    }

    /// A node of a Cluster.
    pub(crate) fn at(host: &Host, address: &Address, timeout: Duration) -> Result<Self, StoreError> {
        Self::new(client_at(address, host), &name_of(host), address, timeout)
    }

    fn new(
        client: RedisResult<NodeClient>,
        name: &str,
        address: &Address,
        timeout: Duration,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            name: Arc::from(name),
            client: client.map_err(|error| wrong(format!("the store's URL: {error}")))?,
            timeout,
            open: Mutex::new(None),
            made: AtomicU64::new(0),
            primary: AtomicU64::new(0),
            layout: address.layout,
            takes_unnamed_keys: AtomicBool::new(true),
        })
    }

    /// `HOST:PORT` of a node of a Cluster.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
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
        connection.identify().await;
        self.note_primary(connection.primary());
        *open = Some(connection.clone());
        Ok(connection)
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

    /// The error if the server is too old for the layout. A server that cannot be reached may come later.
    pub(crate) async fn too_old(&self) -> Option<StoreError> {
        let mut connection = self.new_connection().await.ok()?;
        version::too_old(&mut connection, self.layout).await.ok().flatten()
    }

    async fn new_connection(&self) -> Result<Connection, StoreError> {
        let connect = tokio::time::timeout(self.timeout, self.connect());
        match connect.await {
            Ok(connection) => connection.map_err(|error| not_connected(&error)),
            Err(_) => Err(not_connected(&std::io::Error::from(std::io::ErrorKind::TimedOut).into())),
        }
    }

    async fn connect(&self) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        let wire = match &self.client {
            NodeClient::At(client) => client.get_multiplexed_async_connection_with_config(&config).await?,
            NodeClient::Sentinel(client) => {
                client.lock().await.get_async_connection_with_config(&config).await?
            }
        };
        Ok(Connection::new(self.made.fetch_add(1, Ordering::Relaxed), wire))
    }

    /// Gives a connection up that has failed: the next call makes a new one.
    pub(crate) async fn give_up(&self, failed: &Connection) {
        let mut open = self.open.lock().await;
        if open.as_ref().is_some_and(|open| open.is_same(failed)) {
            *open = None;
        }
    }

    /// Whether one command may hold calls of several slots: its script reaches keys that the command does not name.
    pub(crate) fn takes_unnamed_keys(&self) -> bool {
        self.takes_unnamed_keys.load(Ordering::Relaxed)
    }

    /// It refused such a command.
    pub(crate) fn note_unnamed_keys_refused(&self) {
        self.takes_unnamed_keys.store(false, Ordering::Relaxed);
    }
}

/// `HOST:PORT`.
pub(crate) fn name_of((host, port): &Host) -> String {
    format!("{host}:{port}")
}

fn client_at(address: &Address, host: &Host) -> RedisResult<NodeClient> {
    let mut settings = RedisConnectionInfo::default().set_db(address.database);
    if let Some(user) = &address.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &address.password {
        settings = settings.set_password(password);
    }
    let info = node_address(host, address.tls).into_connection_info()?;
    let info = info.set_redis_settings(settings).set_tcp_settings(tcp_settings());
    tls::client(info, address).map(|client| NodeClient::At(Box::new(client)))
}

fn sentinel(address: &Address, master: &str) -> RedisResult<NodeClient> {
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
    Ok(NodeClient::Sentinel(Box::new(Mutex::new(tls::sentinel(builder, address)?.build()?))))
}

fn node_address((host, port): &Host, tls: bool) -> ConnectionAddr {
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
