//! Every bound of the server, in one place, each with its reason. What depends on the machine is in the config instead:
//! workers, connections, and the drain and the grace at the end.

use std::time::Duration;

use crate::ListenerKind;

/// The longest request body, in bytes: a batch of a hundred takes with long subjects fits several times.
pub const BODY_BYTES_MAX: usize = 64 * 1_024;

/// What bodies that have begun and not ended may have in all, on one connection: a proxy's many small ones fit.
pub(crate) const BODIES_BYTES_PER_CONNECTION_MAX: usize = 1_024 * 1_024;

/// And on all connections of a worker, however many clients work together.
pub(crate) const BODIES_BYTES_PER_WORKER_MAX: usize = 64 * 1_024 * 1_024;

/// The longest head of a request, in bytes: the usual bound of proxies, so that what they let through is understood.
/// The number of headers is hyper's bound, a hundred.
pub const HEAD_BYTES_MAX: usize = 16 * 1_024;

/// The most takes in one batch: answered together, they hold a worker for well under a millisecond.
pub const TAKES_PER_BATCH_MAX: usize = 100;

/// The most units that a cost may name: no policy has more limits.
pub const UNITS_PER_COST_MAX: usize = tollway::core::bounds::LIMITS_PER_POLICY_MAX;

/// How long the server waits for its clients.
///
/// A connection that keeps it waiting longer is closed. A well-behaved client reaches none of these; together they bound how
/// long another can hold a connection without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// From the first byte of a request, or from the connection, until its head is complete; with TLS, the handshake
    /// too.
    pub head: Duration,
    /// From one request to the next.
    pub idle: Duration,
    /// For the whole body of a request, however steadily it trickles.
    pub body: Duration,
    /// For a client that does not read its answers.
    pub write: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let [head, body, write] = [10; 3].map(Duration::from_secs);
        // Longer than the sixty seconds for which proxies keep connections: the client should close first.
        Self { head, body, write, idle: Duration::from_secs(75) }
    }
}

impl Patience {
    /// The timeouts of connections to this listener.
    pub(crate) fn at(self, kind: ListenerKind) -> Self {
        match kind {
            ListenerKind::Resp => Self { idle: self.idle.saturating_mul(RESP_IDLE_TIMES), ..self },
            _ => self,
        }
    }
}

/// Connections for administration at the same time. They have a limit of their own, so that a flood of other connections
/// cannot keep `/health` and operators out.
pub const ADMINISTRATION_CONNECTIONS_MAX: usize = 256;

/// How many of them one client address may have: half, so that no single one can take them all.
pub(crate) const ADMINISTRATION_CONNECTIONS_PER_ADDRESS_MAX: usize = 128;

/// How long requests to the administration may take to end when no decision is left, if the config's grace is not shorter:
/// twice as long as a store is waited for.
pub(crate) const ADMINISTRATION_GRACE: Duration = Duration::from_secs(1);

/// How often a worker checks the deadlines of its connections, so that a request need not set a timer.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Connections that wait to be taken over by one worker: it only has to wake up for them.
pub(crate) const INBOX_MAX: usize = 1_024;

/// Connections that wait to be accepted, by the kernel's count: a burst of this size is not turned away.
pub(crate) const BACKLOG: u32 = 1_024;

/// How long the accept loop pauses when the machine has no descriptors left, instead of trying again at once.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Requests at the same time on one HTTP/2 connection: enough for a proxy's busiest, little enough to hold in memory.
pub(crate) const STREAMS_MAX: u32 = 256;

/// Streams that a client may have reset before the server has seen them; one more, and it is gone (rapid reset).
pub(crate) const RESET_STREAMS_MAX: usize = 20;

/// Streams that the server may have reset for a client's mistakes; one more, and the client is gone.
pub(crate) const MISTAKEN_STREAMS_MAX: usize = 100;

/// What a client may send ahead on one stream: as much as a body may have.
pub(crate) const STREAM_WINDOW: u32 = 64 * 1_024;

/// What a client may send ahead on all streams of a connection.
pub(crate) const CONNECTION_WINDOW: u32 = 256 * 1_024;

/// What is kept for a client that does not read, on one HTTP/2 stream.
pub(crate) const SEND_BUFFER_MAX: usize = 64 * 1_024;

/// How often an HTTP/2 client is asked whether it is still there, and how long it may take to say so.
pub(crate) const PING_INTERVAL: Duration = Duration::from_secs(20);

/// What is read of a RESP connection at once, and so the most requests that are answered before others have their turn:
/// a few hundred, which is well under a millisecond.
pub(crate) const RESP_READ_BYTES: usize = 16 * 1_024;

/// The words of a RESP request: our commands have six, and a client that knows others is told so instead of cut off.
pub(crate) const RESP_ARGUMENTS_MAX: usize = 128;

/// The words of a RESP request before a token was shown, by Redis's own bound.
pub(crate) const RESP_ARGUMENTS_BEFORE_AUTH_MAX: usize = 10;

/// The longest word of a RESP request: a key has no more than a kilobyte, a token neither.
pub(crate) const RESP_BULK_BYTES_MAX: usize = 16 * 1_024;

/// The longest line of a RESP request: words that are typed, or a number.
pub(crate) const RESP_LINE_BYTES_MAX: usize = 16 * 1_024;

/// The longest RESP request, and so what is kept of one that has begun.
pub(crate) const RESP_REQUEST_BYTES_MAX: usize = 64 * 1_024;

/// When RESP replies go out although there is more to answer: what is kept for a client that does not read.
pub(crate) const RESP_OUT_BYTES_MAX: usize = 64 * 1_024;

/// RESP requests of one client that are with the store at the same time: as many as a batch may carry.
pub(crate) const RESP_LATER_MAX: usize = tollway::core::bounds::OPERATIONS_PER_BATCH_MAX;

/// Limits that callers of RESP have chosen, for each worker: a program has a few, and each is a kilobyte.
pub(crate) const RESP_CHOSEN_MAX: usize = 1_024;

/// How many times longer a RESP client may be idle: its library keeps a pool of connections, and Redis never closes them.
const RESP_IDLE_TIMES: u32 = 8;

/// The descriptors of one call: more than a route of Envoy has, and each is looked up.
pub(crate) const DESCRIPTORS_MAX: usize = 64;

/// The entries of a descriptor: one with more falls under no rule, as rules have fewer.
pub(crate) const ENTRIES_PER_DESCRIPTOR_MAX: usize = 32;

/// Limits that Envoy has brought with its descriptors, for each worker: routes have a few, and each is a kilobyte.
pub(crate) const ENVOY_CHOSEN_MAX: usize = 1_024;

/// The shortest token that may guard the administration: shorter ones are guessed.
pub(crate) const TOKEN_BYTES_MIN: usize = 16;

/// The longest token: a file larger than this is another file.
pub(crate) const TOKEN_BYTES_MAX: usize = 1_024;

/// How often the store is asked again for the secret that permits are signed with, if it had none to give.
pub(crate) const SECRET_RETRY_INTERVAL: Duration = Duration::from_secs(5);
