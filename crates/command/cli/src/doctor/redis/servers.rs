//! Connects to the servers behind a URL: one server, the listed nodes of a Cluster, or the master from Sentinels. Compares
//! two URLs.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult};
use tollway::core::StoreUrlParts;

use super::redis_cli::RedisCli;

/// Timeout for connecting and for each response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The INFO field with a server's random id, new at each start.
const RUN_ID: &str = "run_id:";

/// A parsed store URL, already validated.
#[derive(Clone)]
pub(super) struct Url {
    pub(super) kind: Kind,
    pub(super) tls: bool,
    /// With its colon and `@`, or empty.
    pub(super) user: String,
    /// With their ports, in lower case.
    pub(super) hosts: Vec<String>,
    pub(super) database: String,
    pub(super) prefix: String,
    options: Vec<(String, String)>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Kind {
    One,
    Cluster,
    Sentinel { master: String },
}

impl Url {
    pub(super) fn read(url: &str) -> Option<Self> {
        let StoreUrlParts { scheme, user_info, authority, path, query, .. } = StoreUrlParts::read(url)?;
        let (transport, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let (kind, database, port) = match kind {
            "cluster" => (Kind::Cluster, path, 6_379),
            "sentinel" => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                (Kind::Sentinel { master: master.to_owned() }, database, 26_379)
            }
            _ => (Kind::One, path, 6_379),
        };
        // Parses the options with percent-decoding.
        let options = redis::parse_redis_url(&format!("redis://h?{query}"))?;
        let options: Vec<(String, String)> =
            options.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        let prefix = options.iter().find(|(name, _)| name == "prefix").map(|(_, prefix)| prefix.clone());
        Some(Self {
            kind,
            tls: transport == "rediss",
            user: user_info
                .filter(|user| !user.is_empty())
                .map(|user| format!("{user}@"))
                .unwrap_or_default(),
            hosts: authority.split(',').map(|host| with_port(host, port)).collect(),
            database: if database.is_empty() { "0".to_owned() } else { database.to_owned() },
            prefix: prefix.unwrap_or_else(|| "tollway:".to_owned()),
            options,
        })
    }

    /// The same user and options at another server.
    pub(super) fn at(&self, host: &str, port: u16) -> Self {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Self { kind: Kind::One, hosts: vec![format!("{host}:{port}")], ..self.clone() }
    }

    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn has_consumers_layout(&self) -> bool {
        self.option("layout") == Some("consumers")
    }

    fn of_host(&self, host: &str, user: &str, database: &str) -> String {
        let scheme = if self.tls { "rediss" } else { "redis" };
        format!("{scheme}://{user}{host}/{database}")
    }
}

fn with_port(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    let behind = host.rsplit(']').next().unwrap_or_default();
    if behind.contains(':') { host } else { format!("{host}:{port}") }
}

/// A connected server.
pub(super) struct Server {
    connection: MultiplexedConnection,
    pub(super) cli: RedisCli,
}

impl Server {
    pub(super) async fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> RedisResult<T> {
        let mut command = Cmd::new();
        words.iter().for_each(|word| {
            command.arg(*word);
        });
        command.query_async(&mut self.connection).await
    }

    pub(super) fn connection(&mut self) -> &mut MultiplexedConnection {
        &mut self.connection
    }
}

/// Connects to all reachable servers. An earlier check covers an unreachable store.
pub(super) async fn connect(url: &Url) -> Vec<Server> {
    let hosts = match &url.kind {
        Kind::One | Kind::Cluster => url.hosts.clone(),
        Kind::Sentinel { master } => master_of(url, master).await.into_iter().collect(),
    };
    let mut servers = Vec::new();
    for host in hosts {
        if let Ok(connection) = open(url, &host, &url.user, &url.database).await {
            servers.push(Server { connection, cli: RedisCli::at(url, &host) });
        }
    }
    servers
}

/// Uses the reply of the first Sentinel that knows the master.
async fn master_of(url: &Url, master: &str) -> Option<String> {
    for host in &url.hosts {
        // Sentinels have one database and do not share the store's user.
        let Ok(connection) = open(url, host, "", "0").await else { continue };
        let question = ["SENTINEL", "get-master-addr-by-name", master];
        let mut sentinel = Server { connection, cli: RedisCli::at(url, host) };
        let known: RedisResult<Vec<String>> = sentinel.ask(&question).await;
        if let Ok([host, port]) = known.as_deref() {
            return Some(with_port(&format!("{host}:{port}"), 6_379));
        }
    }
    None
}

async fn open(url: &Url, host: &str, user: &str, database: &str) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(TIMEOUT))
        .set_response_timeout(Some(TIMEOUT));
    client(url, url.of_host(host, user, database))?
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

#[cfg(feature = "redis-tls")]
fn client(url: &Url, at: String) -> RedisResult<Client> {
    use redis::{ClientTlsConfig, TlsCertificates};
    if !url.tls {
        return Client::open(at);
    }
    let read = |name| url.option(name).map(std::fs::read).transpose();
    let client_tls = match (read("cert")?, read("key")?) {
        (Some(client_cert), Some(client_key)) => Some(ClientTlsConfig { client_cert, client_key }),
        _ => None,
    };
    Client::build_with_tls(at, TlsCertificates { client_tls, root_cert: read("ca")? })
}

#[cfg(not(feature = "redis-tls"))]
fn client(_: &Url, at: String) -> RedisResult<Client> {
    Client::open(at)
}

/// The part in which two stores differ, if they do.
pub(in crate::doctor) async fn same_store(ours: &str, theirs: &str) -> Option<&'static str> {
    let (Some(ours), Some(theirs)) = (Url::read(ours), Url::read(theirs)) else { return Some("server") };
    if (ours.kind == Kind::Cluster) != (theirs.kind == Kind::Cluster) {
        return Some("server");
    }
    if same_servers(&ours, &theirs).await != Some(true) {
        return Some("server");
    }
    if ours.database != theirs.database {
        return Some("database");
    }
    if ours.has_consumers_layout() != theirs.has_consumers_layout() {
        return Some("layout");
    }
    // In the consumers layout, the prefix applies only to auxiliary keys.
    (ours.prefix != theirs.prefix).then_some("prefix")
}

/// Whether the server behind a URL is the one at this host and port; nothing if one of them cannot be asked.
pub(in crate::doctor) async fn is_at(url: &str, host: &str, port: u16) -> Option<bool> {
    let ours = Url::read(url)?;
    let there = ours.at(host, port);
    // A server reports the first host of its URL; the order of nodes and Sentinels does not matter.
    if there.hosts.iter().all(|host| ours.hosts.contains(host)) {
        return Some(true);
    }
    same_servers(&ours, &there).await
}

/// Nothing if one of them cannot be asked.
async fn same_servers(ours: &Url, theirs: &Url) -> Option<bool> {
    if ours.kind == theirs.kind && ours.hosts.iter().collect::<BTreeSet<_>>() == theirs.hosts.iter().collect()
    {
        return Some(true);
    }
    // A host can have several names; a run id is unique.
    let (ours, theirs) = (run_ids(ours).await, run_ids(theirs).await);
    (!ours.is_empty() && !theirs.is_empty()).then(|| !ours.is_disjoint(&theirs))
}

async fn run_ids(url: &Url) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for mut server in connect(url).await {
        let info: String = server.ask(&["INFO", "server"]).await.unwrap_or_default();
        // A Sentinel is not the server that it leads to.
        if info.contains("redis_mode:sentinel") {
            continue;
        }
        ids.extend(info.lines().find_map(|line| line.strip_prefix(RUN_ID)).map(str::to_owned));
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_parsed_like_the_store_does() {
        let url = Url::read("redis://:p%40ss@Cache:7000/3?prefix=%7Bone%7D:&layout=consumers").unwrap();
        assert_eq!(
            (url.hosts.as_slice(), &*url.database, &*url.prefix),
            (&["cache:7000".to_owned()][..], "3", "{one}:")
        );
        assert_eq!(url.of_host(&url.hosts[0], &url.user, &url.database), "redis://:p%40ss@cache:7000/3");
        assert!(url.has_consumers_layout());
        let cluster = Url::read("rediss+cluster://a,b:7001,[::1]").unwrap();
        assert_eq!(cluster.hosts, ["a:6379", "b:7001", "[::1]:6379"]);
        assert_eq!(cluster.of_host("a:6379", "", "0"), "rediss://a:6379/0");
        let sentinel = Url::read("redis+sentinel://me:x@a,b/main/2").unwrap();
        assert!(sentinel.kind == Kind::Sentinel { master: "main".to_owned() });
        assert_eq!((sentinel.hosts[1].as_str(), sentinel.database.as_str()), ("b:26379", "2"));
    }
}
