//! The server's own metrics, besides those of its limiter. The docs and tests use this list.

use tollway::metrics::Metric;
use tollway::metrics::MetricKind::{self, Counter, Gauge};

const fn by_listener(name: &'static str, kind: MetricKind, meaning: &'static str) -> Metric {
    Metric { name, kind, unit: "connections", labels: &["door"], meaning, cloudwatch: None }
}

/// Open connections.
pub(crate) static CONNECTIONS_OPEN: Metric = by_listener(
    "tollway_connections_open",
    Gauge,
    "open connections to `tollway serve`, by listener: decisions, grpc, resp or administration",
);
/// Connections that waited for a slot.
pub(crate) static CONNECTIONS_WAITED: Metric = by_listener(
    "tollway_connections_waited_total",
    Counter,
    "connections that waited because the connection limit was reached; those still in the kernel's backlog are not counted",
);
/// Connections refused because of the limit per address.
pub(crate) static CONNECTIONS_TURNED_AWAY: Metric = by_listener(
    "tollway_connections_turned_away_total",
    Counter,
    "connections closed at once because their address was at its connection limit",
);
/// Connections cut off because of a timeout or a flood.
pub(crate) static CONNECTIONS_CUT_OFF: Metric = by_listener(
    "tollway_connections_cut_off_total",
    Counter,
    "connections cut off because the client was too slow to send a request head or a TLS handshake, or to read responses, or sent too many HTTP/2 control frames, or yielded to a newer one of the administration",
);

const fn of_takes(name: &'static str, meaning: &'static str) -> Metric {
    Metric { name, kind: Counter, unit: "takes", labels: &[], meaning, cloudwatch: None }
}

/// Takes denied because too many charges were in flight.
pub(crate) static CHARGES_DENIED: Metric = of_takes(
    "tollway_charges_denied_total",
    "takes denied for a second because more were in flight than the store can answer in time",
);
/// Takes of networks above `new_subjects`.
pub(crate) static NEW_SUBJECTS_BOUNDED: Metric = of_takes(
    "tollway_new_subjects_bounded_total",
    "takes that could make no account, because their network brought more new subjects than `new_subjects` allows",
);

/// Wrong tokens.
pub(crate) static WRONG_TOKENS: Metric = Metric {
    name: "tollway_wrong_tokens_total",
    kind: Counter,
    unit: "tokens",
    labels: &["door"],
    meaning: "wrong tokens that clients sent; the log names their addresses",
    cloudwatch: None,
};

/// All of them, in export order, after those of the limiter ([`METRICS`](tollway::metrics::METRICS)).
pub static SERVER_METRICS: [&Metric; 7] = [
    &CONNECTIONS_OPEN,
    &CONNECTIONS_WAITED,
    &CONNECTIONS_TURNED_AWAY,
    &CONNECTIONS_CUT_OFF,
    &WRONG_TOKENS,
    &CHARGES_DENIED,
    &NEW_SUBJECTS_BOUNDED,
];
