//! `[server]`: how `tollway serve` listens, whom it believes, and what it tells.
//!
//! `whole` reads it together with all other sections that the server needs, `listen` knows addresses to listen at, `access`
//! secrets and certificates, `inbound` what is said of requests, `descriptors` what Envoy's stand for, `subject_template` whom
//! they count for, `number` whole numbers within bounds.

mod access;
mod descriptors;
mod inbound;
mod listen;
mod number;
mod subject_template;
mod whole;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tollway::{Policy, Span};
use tollway_config::Section;
use tollway_inbound::ANONYMOUS_POLICY;
use tollway_inbound::address::AddressRules;
use tollway_inbound::headers::HeaderChoice;

pub use access::{TlsFiles, Token};
pub use descriptors::{DescriptorRule, DescriptorTarget, ENTRIES_PER_RULE_MAX, EntryPattern, ValuePattern};
pub use listen::ListenAddress;
pub use subject_template::{SubjectPiece, SubjectTemplate};
pub use whole::ConfigWithServer;

/// What the policy of callers without credentials allows if the file has none.
const ANONYMOUS_LIMIT: &str = "1000 requests / hour from first call";

/// The most worker threads: more than any machine of today has cores.
const WORKERS_MAX: u64 = 1_024;

/// Connections at the same time, unless the file says otherwise: what a server of moderate memory holds with ease.
pub const CONNECTIONS_DEFAULT: usize = 10_000;

/// The most connections that may be asked for: each needs a descriptor and some ten kilobytes.
const CONNECTIONS_MAX: u64 = 1_000_000;

/// Connections of one client address at the same time, unless the file says otherwise: a tenth of all, so that one
/// stranger cannot shut out the others, and still enough for a proxy in front.
pub const CONNECTIONS_PER_ADDRESS_DEFAULT: usize = 1_000;

/// How long requests may take to end once the server is told to stop, unless the file says otherwise.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(10);

/// The longest grace, and the longest drain: process managers kill the server sooner.
const STOP_MAX: Span = Span::from_mins(10);

/// What `[server]` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Where decisions are asked for.
    pub listen: ListenAddress,
    /// Where it is administered, if anywhere.
    pub admin: Option<ListenAddress>,
    /// Where decisions are asked for by Envoy, besides where all are, if anywhere.
    pub grpc: Option<ListenAddress>,
    /// Where decisions are asked for in the Redis protocol, if anywhere.
    pub resp: Option<ListenAddress>,
    /// What Envoy's descriptors stand for.
    pub descriptors: Vec<DescriptorRule>,
    /// How many threads decide; none said: as many as there are cores.
    pub workers: Option<usize>,
    /// How many connections for decisions there may be at the same time; administration has places of its own.
    pub connections: usize,
    /// How many of them one client address may have, unless it is that of a proxy which is named.
    pub connections_per_address: usize,
    /// How long the server goes on as before once it is told to stop, and only says so to those who ask whether it is
    /// ready, so that they send their requests elsewhere before any is refused.
    pub drain: Duration,
    /// How long requests may take to end after that.
    pub grace: Duration,
    /// Which headers an answer has.
    pub headers: HeaderChoice,
    /// Whether the file says so. If not, Envoy is given none for its clients: it makes its own.
    pub headers_named: bool,
    /// Which headers it has under these policies instead.
    pub policy_headers: BTreeMap<String, HeaderChoice>,
    /// How a client's address is found.
    pub address: AddressRules,
    /// The headers that name the subject of `/v1/authorize`, in lower case; the first that a request has counts.
    pub subject_headers: Vec<String>,
    /// Where the token is that may read.
    pub read_token: Option<Token>,
    /// Where the token is that may read and write.
    pub write_token: Option<Token>,
    /// Where the token is that may ask in the Redis protocol; none: no token is needed.
    pub resp_token: Option<Token>,
    /// The certificate for TLS on all addresses.
    pub tls: Option<TlsFiles>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 8_080))),
            admin: None,
            grpc: None,
            resp: None,
            descriptors: Vec::new(),
            workers: None,
            connections: CONNECTIONS_DEFAULT,
            connections_per_address: CONNECTIONS_PER_ADDRESS_DEFAULT,
            drain: Duration::ZERO,
            grace: GRACE_DEFAULT,
            headers: HeaderChoice::ALL,
            headers_named: false,
            policy_headers: BTreeMap::new(),
            address: AddressRules::default(),
            subject_headers: Vec::new(),
            read_token: None,
            write_token: None,
            resp_token: None,
            tls: None,
        }
    }
}

impl ServerConfig {
    /// The headers of answers under a policy.
    pub fn headers_of(&self, policy: &str) -> HeaderChoice {
        self.policy_headers.get(policy).copied().unwrap_or(self.headers)
    }

    /// Relative paths are meant from the file's folder.
    fn in_folder(&mut self, folder: &Path) {
        let sockets = [Some(&mut self.listen), self.admin.as_mut(), self.grpc.as_mut(), self.resp.as_mut()];
        let sockets = sockets.into_iter().flatten();
        let sockets = sockets.filter_map(ListenAddress::path_mut);
        let tokens =
            [&mut self.read_token, &mut self.write_token, &mut self.resp_token].into_iter().flatten();
        let tokens = tokens.filter_map(Token::path_mut);
        let tls = self.tls.iter_mut().flat_map(|files| [&mut files.certificate, &mut files.key]);
        for path in sockets.chain(tokens).chain(tls) {
            *path = folder.join(&*path);
        }
    }

    /// The policy of those without credentials, where credentials are looked for.
    fn anonymous_policy(&self) -> Option<Arc<Policy>> {
        let needed = !self.subject_headers.is_empty();
        needed.then(|| Policy::new(ANONYMOUS_POLICY, [ANONYMOUS_LIMIT]).ok().map(Arc::new)).flatten()
    }
}

/// What the section says; what is wrong with it is in the report. `names` are those of the policies that may be
/// named; `policies` are those of them that nothing is wrong with.
fn read(mut section: Section<'_>, names: &[&str], policies: &[Arc<Policy>]) -> ServerConfig {
    let base = ServerConfig::default();
    let listen = listen::read(&mut section, "listen", "127.0.0.1:8080").unwrap_or(base.listen);
    let admin = listen::read(&mut section, "admin", "127.0.0.1:9090");
    let resp = listen::read(&mut section, "resp", "127.0.0.1:6380");
    let workers = number::read(&mut section, "workers", 1..=WORKERS_MAX);
    let connections = number::read(&mut section, "connections", 1..=CONNECTIONS_MAX);
    let per_address = number::read(&mut section, "connections_per_address", 1..=CONNECTIONS_MAX);
    let drain = read_time(&mut section, "drain", "5s");
    let grace = read_time(&mut section, "grace", "10s");
    let headers = inbound::read_headers(&mut section);
    let policy_headers = inbound::read_policy_headers(&mut section, names);
    let address = section.section("address").map(inbound::read_address);
    let subject_headers = section.section("authorize").map(inbound::read_subject_headers);
    let [read_token, write_token, resp_token] =
        section.section("tokens").map(access::read_tokens).unwrap_or_default();
    let tls = section.section("tls").and_then(access::read_tls);
    let grpc = listen::read(&mut section, "grpc", "127.0.0.1:8081");
    let descriptors = descriptors::read(&mut section, names, policies);
    section.finish();
    ServerConfig {
        listen,
        admin,
        grpc,
        resp,
        descriptors,
        workers,
        connections: connections.unwrap_or(base.connections),
        connections_per_address: per_address.unwrap_or(base.connections_per_address),
        drain: drain.unwrap_or(base.drain),
        grace: grace.unwrap_or(base.grace),
        headers: headers.unwrap_or(base.headers),
        headers_named: headers.is_some(),
        policy_headers,
        address: address.unwrap_or_default(),
        subject_headers: subject_headers.unwrap_or_default(),
        read_token,
        write_token,
        resp_token,
        tls,
    }
}

/// A part of the time that a stop takes.
fn read_time(section: &mut Section<'_>, key: &'static str, example: &str) -> Option<Duration> {
    let time = section.span(key, example)?;
    if time > STOP_MAX {
        section.problem(key, format!("a {key} of {time} is more than the {STOP_MAX} allowed"), "");
        return None;
    }
    Some(time.into())
}
