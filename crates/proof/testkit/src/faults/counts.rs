//! Counters of a proxy.

/// The counters of a proxy since its start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Accepted connections.
    pub connections: u64,
    /// Open connections.
    pub open: u64,
    /// Bytes that came through to the server.
    pub to_server: u64,
    /// Bytes that came through to clients.
    pub to_client: u64,
    /// Connections reset by [`Fault::Reset`](super::Fault::Reset).
    pub resets: u64,
    /// Connections closed by [`Fault::CutAfter`](super::Fault::CutAfter).
    pub cuts: u64,
    /// Connections whose reply was thrown away by [`Fault::LoseReplies`](super::Fault::LoseReplies).
    pub replies_lost: u64,
    /// Connections that ended at once because the server could not be reached or the proxy had too many.
    pub not_connected: u64,
}
