//! What the server counts of itself, beside what its limiter counts: named, documented and tested from one list.

use tollway::metrics::Metric;
use tollway::metrics::MetricKind::{self, Counter, Gauge};

const fn of_door(name: &'static str, kind: MetricKind, meaning: &'static str) -> Metric {
    Metric { name, kind, unit: "connections", labels: &["door"], meaning }
}

/// Connections of a server that are open.
pub(crate) static CONNECTIONS_OPEN: Metric = of_door(
    "tollway_connections_open",
    Gauge,
    "connections to `tollway serve` that are open, by what they are for: decisions, grpc, resp or administration",
);
/// Connections of a server that waited for a place.
pub(crate) static CONNECTIONS_WAITED: Metric = of_door(
    "tollway_connections_waited_total",
    Counter,
    "connections that came when every place was taken and waited for one; those behind them wait in the kernel, uncounted",
);
/// Connections that a server turned away.
pub(crate) static CONNECTIONS_TURNED_AWAY: Metric = of_door(
    "tollway_connections_turned_away_total",
    Counter,
    "connections that were closed at once: their address had as many as one may have",
);
/// Connections that a server cut off.
pub(crate) static CONNECTIONS_CUT_OFF: Metric = of_door(
    "tollway_connections_cut_off_total",
    Counter,
    "connections whose client was too slow with the head of a request or a TLS handshake, or in reading its answers",
);

/// All of them, in the order in which they are told: behind those of the limiter ([`METRICS`](tollway::metrics::METRICS)).
pub static SERVER_METRICS: [&Metric; 4] =
    [&CONNECTIONS_OPEN, &CONNECTIONS_WAITED, &CONNECTIONS_TURNED_AWAY, &CONNECTIONS_CUT_OFF];
