//! The faults between a client and a server.

use std::time::Duration;

/// The direction of bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// A fault that a proxy applies to open and new connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Bytes are delayed in each direction by `fixed` plus a random part of `jitter`.
    Latency {
        /// At least so late.
        fixed: Duration,
        /// At most so much later than that.
        jitter: Duration,
    },
    /// Connections are accepted, and no bytes pass in either direction.
    Blackhole,
    /// New connections are refused. Open ones continue.
    Refuse,
    /// Open connections are reset, new ones as soon as they are accepted.
    Reset,
    /// Requests arrive, replies do not.
    HalfOpen,
    /// Each connection carries this many bytes a second in each direction.
    Slow {
        /// At least 1.
        bytes_per_second: u64,
    },
    /// Each connection is closed after this many more bytes in one direction, possibly in the middle of a message.
    CutAfter {
        /// Which bytes are counted.
        way: Way,
        /// How many come through.
        bytes: u64,
    },
    /// The request arrives, the reply is dropped, and the connection is reset: the server applied it and the client does
    /// not know. New connections work until they send a request.
    LoseReplies {
        /// How many connections lose a reply before the fault ends. `None`: until it is cleared.
        times: Option<u32>,
    },
}
