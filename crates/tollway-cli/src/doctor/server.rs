//! Whether a running server counts where the config says, and whether its store answers.

use std::io;

use serde_json::Value;
use tollway::StoreUrl;
use tollway::core::StoreUrlParts;
use tollway_server::Token;

use super::compare::different;
use super::finding::{Finding, Findings};
use super::http::Server;
use super::place::Written;
use crate::context::WholeConfig;

const RATE_LIMITING: &str = "/obp/v3.1.0/management/rate-limiting";
const REDIS: &str = "/health/redis";

pub(super) async fn look_at(
    config: &WholeConfig,
    store: Option<&StoreUrl>,
    written: &Written,
    server: &Server,
    findings: &mut Findings,
) {
    findings.looked_at(format!("server {server}"));
    let ours = Place::of(store);
    match Place::ask(server, config).await {
        Err(error) => findings.add(Finding::problem(
            "server-unreachable",
            format!("the server at {server} does not say where it counts: {error}"),
            "nobody can tell whether it shares the store",
            "name where it is administered (`admin` of [server]), and let the config of this command have its token",
        )),
        Ok(theirs) => {
            if !is_same(&ours, &theirs, written).await {
                let whose = server.to_string();
                findings.add(different("server", &ours.to_string(), &theirs.to_string(), &whose));
            } else if theirs.ready == Some(false) {
                findings.add(Finding::problem(
                    "store-unreachable",
                    format!("the store of the server at {server} does not answer it"),
                    "nothing is counted there; consumers are let through unless `when_store_fails` says otherwise",
                    "see that the machine of that server reaches it: redis-cli -h HOST -p PORT ping",
                ));
            }
        }
    }
}

async fn is_same(ours: &Place, theirs: &Place, written: &Written) -> bool {
    let said = ours.technology == theirs.technology && ours.redis == theirs.redis;
    said || is_redis_at(written, theirs).await
}

/// A host has many names.
#[cfg(feature = "redis")]
async fn is_redis_at(ours: &Written, theirs: &Place) -> bool {
    match (ours.redis(), &theirs.redis) {
        (Some(url), Some((host, port))) => super::redis::is_at(url, host, *port).await,
        _ => false,
    }
}

#[cfg(not(feature = "redis"))]
async fn is_redis_at(_: &Written, _: &Place) -> bool {
    false
}

/// Where somebody counts, as far as a server tells of it.
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
        // Where a Redis is, and what it is if it is none, only those with a token are told.
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

/// What the server says, whoever it is: on one line, and nothing that moves the cursor.
fn detail(body: &Value) -> String {
    body["detail"].as_str().unwrap_or("without a reason").escape_debug().to_string()
}

/// The token that may read, else the one that may write as well.
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

/// The first host of a URL as it is shown, as a server tells it.
fn first_host(url: &str) -> (String, u16) {
    let Some(parts) = StoreUrlParts::read(url) else { return (url.to_owned(), 6_379) };
    let default = if parts.scheme.ends_with("+sentinel") { 26_379 } else { 6_379 };
    let (host, port) = parts.hosts().next().unwrap_or_default();
    (host.to_owned(), port.and_then(|port| port.parse().ok()).unwrap_or(default))
}
