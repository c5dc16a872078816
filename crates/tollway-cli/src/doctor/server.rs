//! Checks that a running server uses the config's store, and that the store answers it.

use std::io;

use serde_json::Value;
use tollway::StoreUrl;
use tollway::core::StoreUrlParts;
use tollway_server::Token;

use super::compare::different;
use super::finding::{Finding, Findings};
use super::http::Server;
use super::store_url::FullStoreUrl;
use crate::context::WholeConfig;

const RATE_LIMITING: &str = "/obp/v3.1.0/management/rate-limiting";
const REDIS: &str = "/health/redis";

pub(super) async fn look_at(
    config: &WholeConfig,
    store: Option<&StoreUrl>,
    written: &FullStoreUrl,
    server: &Server,
    findings: &mut Findings,
) {
    findings.checked(format!("server {server}"));
    let ours = Place::of(store);
    match Place::ask(server, config).await {
        Err(error) => findings.add(Finding::problem(
            "server-unreachable",
            format!("the server at {server} does not report its store: {error}"),
            "it is unknown whether it shares the store",
            "use its administration address (`admin` in [server]), and put its token into this config",
        )),
        Ok(theirs) => {
            if !is_same(&ours, &theirs, written).await {
                let whose = server.to_string();
                findings.add(different("server", &ours.to_string(), &theirs.to_string(), &whose));
            } else if theirs.ready == Some(false) {
                findings.add(Finding::problem(
                    "store-unreachable",
                    format!("the store of the server at {server} does not answer"),
                    "nothing is counted there; consumers are not limited unless `when_store_fails` is \"local\" or \"closed\"",
                    "check on the server's machine: redis-cli -h HOST -p PORT ping",
                ));
            }
        }
    }
}

async fn is_same(ours: &Place, theirs: &Place, written: &FullStoreUrl) -> bool {
    let said = ours.technology == theirs.technology && ours.redis == theirs.redis;
    said || is_redis_at(written, theirs).await
}

/// A host can have several names.
#[cfg(feature = "redis")]
async fn is_redis_at(ours: &FullStoreUrl, theirs: &Place) -> bool {
    match (ours.redis(), &theirs.redis) {
        (Some(url), Some((host, port))) => super::redis::is_at(url, host, *port).await,
        _ => false,
    }
}

#[cfg(not(feature = "redis"))]
async fn is_redis_at(_: &FullStoreUrl, _: &Place) -> bool {
    false
}

/// A store, as far as a server reports it.
struct Place {
    technology: String,
    redis: Option<(String, u16)>,
    ready: Option<bool>,
}

impl Place {
    fn of(store: Option<&StoreUrl>) -> Self {
        let technology = store.cloned().unwrap_or_default().kind().technology;
        let redis = store
            .filter(|store| matches!(store, StoreUrl::Redis(_)))
            .map(|store| first_host(&store.to_string()));
        Self { technology: technology.to_owned(), redis, ready: None }
    }

    async fn ask(server: &Server, config: &WholeConfig) -> io::Result<Self> {
        let token = token(config);
        // Only requests with a token get the address of Redis.
        let shown = token.as_ref().and_then(|token| token.as_deref().ok());
        let health = server.get(REDIS, shown).await?;
        if let (200, Some(host), Some(port)) =
            (health.status, health.body["url"].as_str(), health.body["port"].as_u64())
        {
            let redis = Some((host.to_owned(), u16::try_from(port).unwrap_or_default()));
            let ready = health.body["redis_ready"].as_bool();
            return Ok(Self { technology: "REDIS".to_owned(), redis, ready });
        }
        let token = token.transpose()?;
        let info = server.get(RATE_LIMITING, token.as_deref()).await?;
        match (info.status, info.body["technology"].as_str()) {
            (200, Some(technology)) => {
                let ready = info.body["service_available"].as_bool();
                Ok(Self { technology: technology.to_owned(), redis: None, ready })
            }
            (404, _) if health.status == 404 => {
                Ok(Self { technology: "not Redis".to_owned(), redis: None, ready: None })
            }
            (status, _) => Err(io::Error::other(format!("status {status}, {}", detail(&info.body)))),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.redis {
            Some((host, port)) => write!(f, "Redis at {}:{port}", host.escape_debug()),
            None => write!(f, "{}", self.technology.escape_debug()),
        }
    }
}

/// The server's message, escaped: one line without control characters.
fn detail(body: &Value) -> String {
    body["detail"].as_str().unwrap_or("no reason given").escape_debug().to_string()
}

/// The read token, else the write token.
fn token(config: &WholeConfig) -> Option<io::Result<String>> {
    let server = config.server()?;
    let token = server.read_token.as_ref().or(server.write_token.as_ref())?;
    let read = match token {
        Token::Variable(name) => {
            std::env::var(name).map_err(|_| io::Error::other(format!("{token} is not set")))
        }
        Token::File(path) => std::fs::read_to_string(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{token}: {error}"))),
    };
    Some(read.map(|token| token.trim().to_owned()))
}

/// The first host of a URL, as a server reports it.
fn first_host(url: &str) -> (String, u16) {
    let Some(parts) = StoreUrlParts::read(url) else { return (url.to_owned(), 6_379) };
    let default = if parts.scheme.ends_with("+sentinel") { 26_379 } else { 6_379 };
    let (host, port) = parts.hosts().next().unwrap_or_default();
    (host.to_owned(), port.and_then(|port| port.parse().ok()).unwrap_or(default))
}
