//! Checks that a running server uses the config's store, and that the store answers it.

use std::io;

use serde_json::Value;
use tollway::StoreUrl;
use tollway::config::SharedBy;
use tollway::core::StoreUrlParts;
use tollway_server::Token;

use super::compare::different;
use super::finding::{Finding, Findings};
use super::http::{Response, Server};
use super::store_url::FullStoreUrl;
use crate::context::WholeConfig;
use crate::shell::shell_word_or_dots;

const RATE_LIMITING: &str = "/obp/v3.1.0/management/rate-limiting";
const REDIS: &str = "/health/redis";

/// The problem that a server with another store than Redis answers there.
const NO_REDIS: &str = "urn:tollway:no-redis";

pub(super) async fn look_at(
    config: &WholeConfig,
    store: &StoreUrl,
    written: &FullStoreUrl,
    server: &Server,
    findings: &mut Findings,
) {
    // A server reports no more than that.
    findings
        .checked(format!("server {server}: kind and address of its store, not database, prefix or layout"));
    let ours = Place::of(store);
    let theirs = match Place::ask(server, config).await {
        Ok(theirs) => theirs,
        Err(error) => {
            return findings.add(Finding::problem(
                "server-unreachable",
                format!("the server at {server} does not report its store: {error}"),
                "it is unknown whether it shares the store",
                "check that it runs; use its administration address (`admin` in [server]), and put its token into this \
                 config",
            ));
        }
    };
    match compare(store, &ours, &theirs, written).await {
        Comparison::Same => {}
        Comparison::Different(part) => {
            findings.add(different(part, &ours.to_string(), &theirs.to_string(), &server.to_string()));
        }
        Comparison::Unknown => findings.add(unknown(server, &ours, &theirs)),
    }
    if theirs.ready == Some(false) {
        findings.add(not_answering(server, &theirs));
    }
    if theirs.consumers_enabled == Some(false)
        && config.consumers().is_some_and(|consumers| consumers.enabled)
    {
        findings.add(Finding::problem(
            "consumers-off",
            format!(
                "the server at {server} has consumers switched off, and this config has `enabled = true`"
            ),
            "no caller is limited or counted there: it runs with another config, or could not apply this one",
            "check the server's log for an error in its config, and which config it was started with",
        ));
    }
}

/// Whether the server uses this config's store.
enum Comparison {
    Same,
    /// The part in which they differ.
    Different(&'static str),
    /// The server does not report enough, or Redis cannot be asked.
    Unknown,
}

async fn compare(store: &StoreUrl, ours: &Place, theirs: &Place, written: &FullStoreUrl) -> Comparison {
    if ours.technology != theirs.technology {
        return Comparison::Different("kind");
    }
    if ours.redis.is_none() {
        // What memory means is said already, by `store-in-memory`.
        let in_memory = store.kind().shared_by == SharedBy::Process;
        return if in_memory { Comparison::Same } else { Comparison::Unknown };
    }
    if ours.redis == theirs.redis {
        return Comparison::Same;
    }
    match is_redis_at(written, theirs).await {
        Some(true) => Comparison::Same,
        Some(false) => Comparison::Different("server"),
        None => Comparison::Unknown,
    }
}

fn unknown(server: &Server, ours: &Place, theirs: &Place) -> Finding {
    let what = match ours.redis {
        Some(_) => format!("{ours} here and {theirs} for {server} could not be compared"),
        None => format!("the server at {server} does not report which {ours} store it uses"),
    };
    Finding::note(
        "server-store-unknown",
        what,
        "if they are different stores, the processes count separately",
        "compare the server's config: tollway doctor --compare CONFIG",
    )
}

fn not_answering(server: &Server, theirs: &Place) -> Finding {
    let check = match &theirs.redis {
        // The server reported the host: it must not add to a command that is copied.
        Some((host, port)) => format!("redis-cli -h {} -p {port} PING", shell_word_or_dots(host)),
        None => "tollway doctor, with the server's config".to_owned(),
    };
    Finding::problem(
        "store-unreachable",
        format!("the store of the server at {server} does not answer it"),
        "nothing is counted there; consumers are not limited unless `when_store_fails` is \"local\" or \"closed\"",
        format!("check on the server's machine: {check}"),
    )
}

/// A host can have several names. Nothing if one of the servers cannot be asked.
#[cfg(feature = "redis")]
async fn is_redis_at(ours: &FullStoreUrl, theirs: &Place) -> Option<bool> {
    let (host, port) = theirs.redis.as_ref()?;
    super::redis::is_at(ours.redis()?, host, *port).await
}

#[cfg(not(feature = "redis"))]
async fn is_redis_at(_: &FullStoreUrl, _: &Place) -> Option<bool> {
    None
}

/// A store, as far as a server reports it.
struct Place {
    technology: String,
    redis: Option<(String, u16)>,
    ready: Option<bool>,
    consumers_enabled: Option<bool>,
}

impl Place {
    fn of(store: &StoreUrl) -> Self {
        let redis = matches!(store, StoreUrl::Redis(_)).then(|| first_host(&store.to_string()));
        Self { technology: store.kind().technology.to_owned(), redis, ready: None, consumers_enabled: None }
    }

    async fn ask(server: &Server, config: &WholeConfig) -> io::Result<Self> {
        let token = token(config);
        // Only requests with a token get the address of Redis.
        let shown = token.as_ref().and_then(|token| token.as_deref().ok());
        let health = server.get(REDIS, shown).await?;
        let technology = match other_technology(&health.body) {
            Some(other) if health.status == 404 => other,
            None if health.status == 200 && health.body["redis_ready"].is_boolean() => "REDIS".to_owned(),
            _ => return Err(unexpected(&health)),
        };
        let token = token.transpose()?;
        let place = health.body["url"].as_str().zip(health.body["port"].as_u64());
        if technology == "REDIS" && place.is_none() {
            return Err(io::Error::other("it names its Redis only to requests with its token"));
        }
        let info = server.get(RATE_LIMITING, token.as_deref()).await?;
        // A server without consumers answers 404.
        if !matches!(info.status, 200 | 404) {
            return Err(unexpected(&info));
        }
        let ready = health.body["redis_ready"].as_bool().or(info.body["service_available"].as_bool());
        let redis = place.map(|(host, port)| (host.to_owned(), u16::try_from(port).unwrap_or_default()));
        Ok(Self { technology, redis, ready, consumers_enabled: info.body["enabled"].as_bool() })
    }
}

fn unexpected(response: &Response) -> io::Error {
    io::Error::other(format!("status {}, {}", response.status, detail(&response.body)))
}

/// What a server says that has another store than Redis: `the store is FILE, not Redis; ...`.
fn other_technology(health: &Value) -> Option<String> {
    let said = health["detail"].as_str().filter(|_| health["type"] == NO_REDIS)?;
    Some(said.strip_prefix("the store is ")?.split(',').next()?.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The fix is a command to copy, and a server reports the host.
    #[test]
    fn a_reported_host_is_quoted_in_the_command() {
        let server: Server = "127.0.0.1:9090".parse().unwrap();
        for (host, word) in [
            ("redis.example", "redis.example"),
            ("x; rm -rf ~ #", "'x; rm -rf ~ #'"),
            ("$(id)", "'$(id)'"),
            ("a\nid", "..."),
        ] {
            let redis = Some((host.to_owned(), 6_379));
            let place =
                Place { technology: "REDIS".to_owned(), redis, ready: Some(false), consumers_enabled: None };
            let fix = not_answering(&server, &place).fix;
            assert!(fix.ends_with(&format!(": redis-cli -h {word} -p 6379 PING")), "{fix}");
        }
    }
}
