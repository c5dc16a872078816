//! What can go wrong between a client and a server.

use std::time::Duration;

/// The direction of bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// What a proxy does wrong, to connections that are there and to new ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Bytes come later, each way: by `fixed`, and by a part of `jitter` that the proxy's seed decides.
    Latency {
        /// At least so late.
        fixed: Duration,
        /// At most so much later than that.
        jitter: Duration,
    },
    /// Connections are taken, and nothing comes through either way.
    Blackhole,
    /// Nobody listens: new connections are refused. Those that are there live on.
    Refuse,
    /// Connections are reset: those that are there now, new ones as soon as they are taken.
    Reset,
    /// What the client says arrives, what the server says does not.
    HalfOpen,
    /// Each connection carries so many bytes a second, each way.
    Slow {
        /// At least 1.
        bytes_per_second: u64,
    },
    /// Each connection is closed after so many more bytes that way, be it in the middle of a word.
    CutAfter {
        /// Which bytes are counted.
        way: Way,
        /// How many come through.
        bytes: u64,
    },
    /// What the client says arrives, what the server answers is thrown away, and then the connection is reset: the server
    /// did it and the client cannot know. New connections work as long as they ask nothing.
    LoseReplies {
        /// How many connections lose a reply before all is well again. Nothing means: until it is cleared.
        times: Option<u32>,
    },
}
