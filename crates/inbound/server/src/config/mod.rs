//! `[server]`: where `tollway serve` listens, which proxies it trusts, and how it responds.
//!
//! `whole` reads it with all other sections that the server needs, `listen` has listen addresses, `access` tokens and
//! certificates, `callers` the names and web pages that may call, `inbound` settings for requests, `descriptors` the rules for Envoy, `subject_template` their subjects,
//! `number` integers within bounds.

mod access;
mod callers;
mod descriptors;
mod gateway;
mod inbound;
mod listen;
mod new_subjects;
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

use access::ReadTokens;
pub use access::{NamedToken, TlsFiles, Token, TokenRight};
pub use descriptors::{DescriptorRule, DescriptorTarget, ENTRIES_PER_RULE_MAX, EntryPattern, ValuePattern};
pub use listen::ListenAddress;
pub use subject_template::{SubjectPiece, SubjectTemplate};
pub use whole::ConfigWithServer;

pub use crate::new_subjects::NewSubjectsRate;

/// The limit of callers without credentials, unless the file sets one.
const ANONYMOUS_LIMIT: &str = "1000 requests / hour from first call";

/// The most worker threads: more than any machine has cores.
const WORKERS_MAX: u64 = 1_024;

/// The default connection limit: a server with moderate memory holds this many easily.
pub const CONNECTIONS_DEFAULT: usize = 10_000;

/// The largest connection limit: each connection needs a file descriptor and some ten kilobytes.
const CONNECTIONS_MAX: u64 = 1_000_000;

/// The default connection limit per client address: a tenth of all, so that one client cannot shut out the others, and
/// still enough for a proxy in front.
pub const CONNECTIONS_PER_ADDRESS_DEFAULT: usize = 1_000;

/// The default grace of requests in flight when the server stops.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(10);

/// The longest drain and the longest grace: process managers kill the server sooner.
const STOP_MAX: Span = Span::from_mins(10);

/// How much `/metrics` shows of each policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsDetail {
    /// Sums and counts of its latencies.
    Short,
    /// Their buckets, too.
    Full,
}

const METRICS_DETAIL: [(&str, MetricsDetail); 2] =
    [("short", MetricsDetail::Short), ("full", MetricsDetail::Full)];

/// The section `[server]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The address for decisions.
    pub listen: ListenAddress,
    /// The address for administration, if any.
    pub admin: Option<ListenAddress>,
    /// An additional address for Envoy, if any.
    pub grpc: Option<ListenAddress>,
    /// The address for the Redis protocol, if any.
    pub resp: Option<ListenAddress>,
    /// The rules for Envoy's descriptors.
    pub descriptors: Vec<DescriptorRule>,
    /// The number of worker threads; `None` means one per core.
    pub workers: Option<usize>,
    /// The connection limit for decisions; administration has its own.
    pub connections: usize,
    /// The connection limit per client address. Trusted proxies are exempt.
    pub connections_per_address: usize,
    /// How many new subjects a client network may bring to a store in Redis; `None` is no bound.
    pub new_subjects: Option<NewSubjectsRate>,
    /// How long the server keeps serving after a stop signal while `/ready` returns 503, so that load balancers move away
    /// before any request is refused.
    pub drain: Duration,
    /// How long requests in flight may take after the drain.
    pub grace: Duration,
    /// The rate-limit headers of responses.
    pub headers: HeaderChoice,
    /// Whether the file sets `headers`. If not, Envoy gets none for its clients, because it writes its own.
    pub headers_named: bool,
    /// The headers under these policies, in place of `headers`.
    pub policy_headers: BTreeMap<String, HeaderChoice>,
    /// How the client's address is found.
    pub address: AddressRules,
    /// The headers that name the subject of `/v1/authorize`, in lower case; the first one that a request has wins.
    pub subject_headers: Vec<String>,
    /// Where the read token is kept.
    pub read_token: Option<Token>,
    /// Where the write token is kept; it may also read.
    pub write_token: Option<Token>,
    /// Where the token of the Redis protocol is kept; with `None`, clients need no token.
    pub resp_token: Option<Token>,
    /// Where the secret is kept that signs permits; with `None`, it is kept in the store.
    pub permits_token: Option<Token>,
    /// The certificate for TLS on all TCP addresses.
    pub tls: Option<TlsFiles>,
    /// The names under which clients reach the server, besides IP addresses and local names.
    pub hosts: Vec<String>,
    /// How much `/metrics` shows of each policy.
    pub metrics: MetricsDetail,
    /// The origins of web pages that may call the server.
    pub allowed_origins: Vec<String>,
    /// Where the token for decisions over HTTP and gRPC is kept; with `None` and no named one, clients need no token.
    pub decisions_token: Option<Token>,
    /// Tokens of single persons and programs.
    pub named_tokens: Vec<NamedToken>,
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
            new_subjects: Some(NewSubjectsRate::default()),
            drain: Duration::ZERO,
            grace: GRACE_DEFAULT,
            headers: HeaderChoice::FOR_PROXIES,
            headers_named: false,
            policy_headers: BTreeMap::new(),
            address: AddressRules::default(),
            subject_headers: Vec::new(),
            read_token: None,
            write_token: None,
            resp_token: None,
            permits_token: None,
            tls: None,
            hosts: Vec::new(),
            metrics: MetricsDetail::Short,
            allowed_origins: Vec::new(),
            decisions_token: None,
            named_tokens: Vec::new(),
        }
    }
}

impl ServerConfig {
    /// The response headers of a policy.
    pub fn headers_of(&self, policy: &str) -> HeaderChoice {
        self.policy_headers.get(policy).copied().unwrap_or(self.headers)
    }

    /// Resolves relative paths against the file's folder.
    fn in_folder(&mut self, folder: &Path) {
        let sockets = [Some(&mut self.listen), self.admin.as_mut(), self.grpc.as_mut(), self.resp.as_mut()];
        let sockets = sockets.into_iter().flatten();
        let sockets = sockets.filter_map(ListenAddress::path_mut);
        let tokens = [
            &mut self.read_token,
            &mut self.write_token,
            &mut self.decisions_token,
            &mut self.resp_token,
            &mut self.permits_token,
        ];
        let named = self.named_tokens.iter_mut().map(|named| &mut named.token);
        let tokens = tokens.into_iter().flatten().chain(named).filter_map(Token::path_mut);
        let tls = self.tls.iter_mut().flat_map(|files| [&mut files.certificate, &mut files.key]);
        for path in sockets.chain(tokens).chain(tls) {
            *path = folder.join(&*path);
        }
    }

    /// The policy for callers without credentials, if `subject_headers` are set.
    fn anonymous_policy(&self) -> Option<Arc<Policy>> {
        let needed = !self.subject_headers.is_empty();
        needed.then(|| Policy::new(ANONYMOUS_POLICY, [ANONYMOUS_LIMIT]).ok().map(Arc::new)).flatten()
    }
}

/// Reads the section and reports its mistakes. `names` are the names of all policies, `policies` are the
/// valid ones; both are sorted.
fn read(mut section: Section<'_>, names: &[&str], policies: &[Arc<Policy>]) -> ServerConfig {
    let base = ServerConfig::default();
    let listen = listen::read(&mut section, "listen", "127.0.0.1:8080").unwrap_or(base.listen);
    let admin = listen::read(&mut section, "admin", "127.0.0.1:9090");
    let resp = listen::read(&mut section, "resp", "127.0.0.1:6380");
    let workers = number::read(&mut section, "workers", 1..=WORKERS_MAX);
    let connections = number::read(&mut section, "connections", 1..=CONNECTIONS_MAX);
    let per_address = number::read(&mut section, "connections_per_address", 1..=CONNECTIONS_MAX);
    let new_subjects = new_subjects::read(&mut section);
    let drain = read_time(&mut section, "drain", "5s");
    let grace = read_time(&mut section, "grace", "10s");
    let headers = inbound::read_headers(&mut section);
    let policy_headers = inbound::read_policy_headers(&mut section, names);
    let address = section.section("address").map(inbound::read_address);
    let subject_headers = section.section("authorize").map(inbound::read_subject_headers);
    let ReadTokens {
        keys: [read_token, write_token, decisions_token, resp_token, permits_token],
        named: named_tokens,
    } = section.section("tokens").map(access::read_tokens).unwrap_or_default();
    let tls = section.section("tls").and_then(access::read_tls);
    let grpc = listen::read(&mut section, "grpc", "127.0.0.1:8081");
    let hosts = callers::read_hosts(&mut section);
    let metrics = section.choice("metrics", &METRICS_DETAIL).unwrap_or(base.metrics);
    let allowed_origins = callers::read_origins(&mut section);
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
        new_subjects: new_subjects.unwrap_or(base.new_subjects),
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
        permits_token,
        tls,
        hosts,
        metrics,
        allowed_origins,
        decisions_token,
        named_tokens,
    }
}

/// Reads `drain` or `grace`.
fn read_time(section: &mut Section<'_>, key: &'static str, example: &str) -> Option<Duration> {
    let time = section.span(key, example)?;
    if time > STOP_MAX {
        section.problem(key, format!("a {key} of {time} is more than the {STOP_MAX} allowed"), "");
        return None;
    }
    Some(time.into())
}
