//! Every bound of the server, in one place, each with its reason. Bounds that depend on the machine are in the config:
//! workers, connections, drain and grace.

use std::time::Duration;

use crate::ListenerKind;

/// The longest request body, in bytes: a batch of a hundred takes with long subjects fits several times.
pub const BODY_BYTES_MAX: usize = 64 * 1_024;

/// The most bytes of incomplete bodies on one connection: a proxy's many small ones fit.
pub(crate) const BODIES_BYTES_PER_CONNECTION_MAX: usize = 1_024 * 1_024;

/// The most bytes of incomplete bodies on all connections of a worker, so that many clients together are bounded.
pub(crate) const BODIES_BYTES_PER_WORKER_MAX: usize = 64 * 1_024 * 1_024;

/// What an open HTTP/2 stream counts in the worker's bytes while its body is incomplete: its state, of at most 5.5 KB, as
/// `tests/heads_memory.rs` measures it. Its head is dropped before.
pub(crate) const OPEN_STREAM_BYTES: usize = 6 * 1_024;

/// The longest request head, in bytes: the usual bound of proxies, so that requests they forward fit. hyper limits the
/// number of headers to 100.
pub const HEAD_BYTES_MAX: usize = 16 * 1_024;

/// The most takes in one batch: together they hold a worker for well under a millisecond.
pub const TAKES_PER_BATCH_MAX: usize = 100;

/// The most units of a cost: no policy has more limits.
pub const UNITS_PER_COST_MAX: usize = tollway::core::bounds::LIMITS_PER_POLICY_MAX;

/// The longest body of a vendor's answer that is reported: refusals are a few kilobytes.
pub const OBSERVED_BODY_BYTES_MAX: usize = 16 * 1_024;

/// The most headers of a vendor's answer: as many as hyper reads.
pub const OBSERVED_HEADERS_MAX: usize = 100;

/// Accounts at vendors whose reported answers a server keeps apart, each of a kilobyte: a team has a few. The least recently
/// used one makes room.
pub(crate) const OBSERVED_ACCOUNTS_MAX: usize = 1_024;

/// Permits whose answers were reported and that are remembered one by one: at a thousand calls a second those of four minutes,
/// in about 10 MB.
pub(crate) const OBSERVED_PERMITS_MAX: usize = 262_144;

/// How long the server waits for its clients.
///
/// The server closes a connection that takes longer. A well-behaved client reaches none of these timeouts; they bound how
/// long any other client can hold a connection without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// From the first byte of a request, or from the connection, until its head is complete; with TLS, the handshake
    /// too.
    pub head: Duration,
    /// From one request to the next.
    pub idle: Duration,
    /// For the whole body of a request, even while bytes keep arriving.
    pub body: Duration,
    /// For a client that does not read its responses.
    pub write: Duration,
    /// How long the answer to a wrong token is delayed, so that guessing is slow.
    pub wrong_token: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        let [head, body, write] = [10; 3].map(Duration::from_secs);
        // Longer than the 60 seconds for which proxies keep idle connections, so that the client closes first.
        Self { head, body, write, idle: Duration::from_secs(75), wrong_token: Duration::from_secs(1) }
    }
}

impl ClientTimeouts {
    /// The timeouts of connections to this listener.
    pub(crate) fn at(self, kind: ListenerKind) -> Self {
        match kind {
            ListenerKind::Resp => Self { idle: self.idle.saturating_mul(RESP_IDLE_TIMES), ..self },
            ListenerKind::Gateway => Self { write: GATEWAY_WRITE, ..self },
            _ => self,
        }
    }
}

/// For a client of a gateway that does not read: it may think about the piece of a stream that it has, as long as vendors'
/// own servers wait.
const GATEWAY_WRITE: Duration = Duration::from_secs(300);

/// The connection limit of the administration. It is separate, so that a flood of other connections cannot keep `/health`
/// and operators out.
pub const ADMINISTRATION_CONNECTIONS_MAX: usize = 256;

/// The administration's connection limit per client address: half, so that one client cannot take all connections.
pub(crate) const ADMINISTRATION_CONNECTIONS_PER_ADDRESS_MAX: usize = 128;

/// The longest grace of the administration, which closes after all decisions: twice the store timeout. A shorter grace in
/// the config wins.
pub(crate) const ADMINISTRATION_GRACE: Duration = Duration::from_secs(1);

/// Connections of the administration beyond its limit, for health checks alone: probes of a few orchestrators.
pub(crate) const HEALTH_CONNECTIONS_MAX: usize = 32;

/// How often a worker checks the deadlines of its connections, so that a request need not set a timer.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Accepted connections queued for one worker, which takes them as soon as it wakes up.
pub(crate) const INBOX_MAX: usize = 1_024;

/// The listen backlog: the kernel queues a burst of this many connections.
pub(crate) const BACKLOG: u32 = 1_024;

/// How long the accept loop pauses when no file descriptors are left, instead of spinning.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Concurrent requests on one HTTP/2 connection: enough for a busy proxy, few enough to hold in memory.
pub(crate) const STREAMS_MAX: u32 = 256;

/// Streams that a client may reset before the server accepts them; one more closes the connection (rapid reset).
pub(crate) const RESET_STREAMS_MAX: usize = 20;

/// Streams that the server may reset for a client's protocol errors; one more closes the connection.
pub(crate) const MISTAKEN_STREAMS_MAX: usize = 100;

/// The HTTP/2 flow-control window of one stream: as much as a body may have.
pub(crate) const STREAM_WINDOW: u32 = 64 * 1_024;

/// The HTTP/2 flow-control window of all streams of a connection.
pub(crate) const CONNECTION_WINDOW: u32 = 256 * 1_024;

/// The most unsent bytes buffered for one HTTP/2 stream.
pub(crate) const SEND_BUFFER_MAX: usize = 64 * 1_024;

/// The interval of HTTP/2 keep-alive pings, and the timeout of their acknowledgement.
pub(crate) const PING_INTERVAL: Duration = Duration::from_secs(20);

/// HTTP/2 control frames (all but requests and bodies) that a client may send within [`CONTROL_FRAMES_INTERVAL`] besides those
/// of its requests; one more closes the connection. Clients without requests send a few a minute.
pub(crate) const CONTROL_FRAMES_MAX: u32 = 1_000;

/// How often that allowance is renewed.
pub(crate) const CONTROL_FRAMES_INTERVAL: Duration = Duration::from_secs(1);

/// The control frames that each request allows in addition. Clients send up to five: window updates, a ping that measures
/// the round trip, the empty end of a body, a reset.
pub(crate) const CONTROL_FRAMES_PER_REQUEST: u32 = 10;

/// The bytes read from a RESP connection at once. They bound the requests answered before other connections get their
/// turn: a few hundred, which takes well under a millisecond.
pub(crate) const RESP_READ_BYTES: usize = 16 * 1_024;

/// The most arguments of a RESP request. Our commands have six; an unknown command with more still gets an error reply.
pub(crate) const RESP_ARGUMENTS_MAX: usize = 128;

/// The most arguments of a RESP request before authentication, as in Redis.
pub(crate) const RESP_ARGUMENTS_BEFORE_AUTH_MAX: usize = 10;

/// The longest argument of a RESP request: keys and tokens have at most a kilobyte.
pub(crate) const RESP_BULK_BYTES_MAX: usize = 16 * 1_024;

/// The longest line of a RESP request: an inline command, or a number.
pub(crate) const RESP_LINE_BYTES_MAX: usize = 16 * 1_024;

/// The longest RESP request, and so the most bytes kept of an incomplete one.
pub(crate) const RESP_REQUEST_BYTES_MAX: usize = 64 * 1_024;

/// RESP replies of this size are sent before more requests are answered. Bounds the memory for a client that does not read.
pub(crate) const RESP_OUT_BYTES_MAX: usize = 64 * 1_024;

/// RESP requests of one connection that wait for the store at the same time: as many as a batch may carry.
pub(crate) const RESP_LATER_MAX: usize = tollway::core::bounds::OPERATIONS_PER_BATCH_MAX;

/// RESP limits that a worker caches, as callers choose them: a program uses a few, and each is a kilobyte.
pub(crate) const RESP_CHOSEN_MAX: usize = 1_024;

/// How many times longer a RESP connection may be idle: client libraries keep pools, which Redis never closes.
const RESP_IDLE_TIMES: u32 = 8;

/// The most descriptors of one call: more than a route of Envoy has, and each costs a lookup.
pub(crate) const DESCRIPTORS_MAX: usize = 64;

/// The most entries of a descriptor: rules have fewer, so none can match a longer one.
pub(crate) const ENTRIES_PER_DESCRIPTOR_MAX: usize = 32;

/// Override limits of Envoy that a worker caches: routes use a few, and each is a kilobyte.
pub(crate) const ENVOY_CHOSEN_MAX: usize = 1_024;

/// The shortest token: shorter ones can be guessed.
pub(crate) const TOKEN_BYTES_MIN: usize = 16;

/// The longest token: a larger file is not a token file.
pub(crate) const TOKEN_BYTES_MAX: usize = 1_024;

/// Answers to wrong tokens that wait at the same time. Each holds a connection; beyond them a guess is answered at once.
pub(crate) const WRONG_TOKEN_DELAYS_MAX: usize = 16;

/// Addresses whose wrong tokens are logged one by one, for a minute each: more than a person can look at.
pub(crate) const WRONG_TOKEN_ADDRESSES_MAX: usize = 1_024;

/// Named tokens: one for each person and program that administers a server. A request is compared with all.
pub(crate) const NAMED_TOKENS_MAX: usize = 64;

/// How often the server retries to read the secret for permits from the store.
pub(crate) const SECRET_RETRY_INTERVAL: Duration = Duration::from_secs(5);
