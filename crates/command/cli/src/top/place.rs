//! What is looked at: a running process, or the config's store.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tokio::sync::mpsc;
use tollway_server::{ListenAddress, ServerConfig, Token};
use tollway_top::Update;
use url::Url;

use super::remote::{Problem, Remote};
use super::{Arguments, local};
use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};

/// Where `tollway serve` on a terminal opens its administration, if the config does not say.
const PORTS: std::ops::RangeInclusive<u16> = 9_090..=9_099;

/// The variable with the token.
const TOKEN_VARIABLE: &str = "TOLLWAY_TOKEN";

/// The administration address of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// `http` or `https`, a host and a port.
    Url(Url),
    Socket(PathBuf),
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const WRITE: &str = "write the administration address, e.g. http://127.0.0.1:9090";
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Socket(path.into()));
        }
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&text).map_err(|_| WRITE)?;
        let is_root = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a token belongs in --token-file or $TOLLWAY_TOKEN, not in the address");
        }
        match url.scheme() {
            "http" | "https" if url.has_host() && is_root => Ok(Self::Url(url)),
            _ => Err(WRITE),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(url.as_str().trim_end_matches('/')),
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What is looked at.
pub(super) enum Place {
    Server(Remote),
    Store(local::Local),
}

impl Place {
    pub(super) async fn find(arguments: &Arguments, context: &Context) -> Result<Self, Failure> {
        if let Some(address) = &arguments.server {
            let token = match &arguments.token_file {
                Some(path) => Some(token_in(path)?),
                None => std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty()),
            };
            let remote = Remote::new(address.clone(), token)?;
            // What waiting does not mend is said at once.
            return match remote.try_once().await {
                Err(Problem::Refused(failure)) => Err(failure),
                Ok(()) | Err(Problem::Away(_)) => Ok(Self::Server(remote)),
            };
        }
        let config = context.config_path_if_any()?.map(WholeConfig::load).transpose()?;
        let server = config.as_ref().and_then(|config| config.server());
        for (address, token) in candidates(server) {
            let remote = Remote::new(address, token)?;
            if remote.try_once().await.is_ok() {
                return Ok(Self::Server(remote));
            }
        }
        local::Local::new(context).map(Self::Store)
    }

    /// Reads until the receiver is dropped.
    pub(super) fn follow(&self) -> mpsc::Receiver<Update> {
        match self {
            Self::Server(remote) => remote.follow(),
            Self::Store(local) => local.follow(),
        }
    }

    pub(super) fn unreachable(&self, why: &str) -> Failure {
        match self {
            Self::Server(remote) => remote.unreachable(why),
            Self::Store(_) => Failure::new(Exit::STORE, format!("the store cannot be read: {why}")),
        }
    }
}

/// Where a process of this machine may listen, and with which token of the config.
fn candidates(server: Option<&ServerConfig>) -> Vec<(Address, Option<String>)> {
    let Some(admin) = server.and_then(|server| server.admin.as_ref()) else {
        let local = PORTS.filter_map(|port| format!("127.0.0.1:{port}").parse().ok());
        return local.map(|address| (address, None)).collect();
    };
    let token = server.and_then(|server| server.read_token.as_ref().or(server.write_token.as_ref()));
    let token = token.and_then(read_token);
    let scheme = if server.is_some_and(|server| server.tls.is_some()) { "https" } else { "http" };
    let address = match admin {
        ListenAddress::Tcp(address) => {
            let mut address = *address;
            if address.ip().is_unspecified() {
                address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
            }
            format!("{scheme}://{address}").parse().ok()
        }
        ListenAddress::Unix { path, .. } => Some(Address::Socket(path.clone())),
    };
    address.into_iter().map(|address| (address, token.clone())).collect()
}

/// A token of the config that this user may read.
fn read_token(token: &Token) -> Option<String> {
    match token {
        Token::Variable(name) => std::env::var(name).ok(),
        Token::File(path) => std::fs::read_to_string(path).ok(),
    }
    .map(|token| token.trim().to_owned())
}

fn token_in(path: &std::path::Path) -> Result<String, Failure> {
    let read = std::fs::read_to_string(path);
    let token =
        read.map_err(|error| Failure::unreadable(Exit::CONFIG, &path.display().to_string(), &error))?;
    Ok(token.trim().to_owned())
}
