//! The metrics that dashboards show, and how each is asked of Prometheus.

use tollway::metrics::{METRICS, Metric, MetricKind};
use tollway_server::SERVER_METRICS;

/// What a metric is about: the rows of a dashboard, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    Limits,
    Apis,
    Pipelines,
    Store,
    Server,
    Process,
}

impl Topic {
    pub(super) const ALL: [Self; 6] =
        [Self::Limits, Self::Apis, Self::Pipelines, Self::Store, Self::Server, Self::Process];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Limits => "Limits",
            Self::Apis => "APIs that are called",
            Self::Pipelines => "Pipelines",
            Self::Store => "Store",
            Self::Server => "Server",
            Self::Process => "Process and config",
        }
    }

    /// What this metric is about, told by its labels and its name.
    pub(super) fn of(metric: &Metric) -> Self {
        let has = |label| metric.labels.contains(&label);
        let about_store =
            ["tollway_store_", "RateLimiterFallback", "tollway_degraded_", "tollway_acquisition_"];
        if has("pipeline") {
            Self::Pipelines
        } else if has("api") {
            Self::Apis
        } else if has("policy") {
            Self::Limits
        } else if about_store.iter().any(|start| metric.name.starts_with(start)) {
            Self::Store
        } else if SERVER_METRICS.iter().any(|of_server| of_server.name == metric.name) {
            Self::Server
        } else {
            Self::Process
        }
    }
}

/// Every metric of the catalogue, in export order.
pub(super) fn metrics() -> Vec<&'static Metric> {
    let all = METRICS.into_iter().chain(SERVER_METRICS);
    #[cfg(feature = "pipeline")]
    let all = all.chain(tollway_pipeline::run::metrics::PIPELINE_METRICS);
    all.collect()
}

/// What Prometheus is asked to show a metric, over all processes; counters per second, distributions as their mean.
pub(super) fn query(metric: &Metric) -> String {
    let Metric { name, labels, .. } = metric;
    let chosen: Vec<String> = ["policy", "api", "pipeline"]
        .into_iter()
        .filter(|label| labels.contains(label))
        .map(|label| format!("{label}=~\"${label}\""))
        .collect();
    let chosen = if chosen.is_empty() { String::new() } else { format!("{{{}}}", chosen.join(",")) };
    let by = if labels.is_empty() { String::new() } else { format!(" by ({})", labels.join(", ")) };
    let rate = |name: &str| format!("rate({name}{chosen}[$__rate_interval])");
    match metric.kind {
        MetricKind::Counter => format!("{}{by} ({})", over_processes(metric), rate(name)),
        MetricKind::Gauge => format!("{}{by} ({name}{chosen})", over_processes(metric)),
        MetricKind::Histogram => {
            let [sum, count] =
                ["sum", "count"].map(|part| format!("sum{by} ({})", rate(&format!("{name}_{part}"))));
            format!("{sum} / {count}")
        }
    }
}

/// How the series of several processes become one.
fn over_processes(metric: &Metric) -> &'static str {
    let added = ["tollway_waiting_callers", "tollway_connections_open", "tollway_pipeline_answers_kept"];
    let least = ["RateLimiterTokensAvailable", "tollway_api_tokens", "tollway_pipeline_engine_up"];
    match metric.kind {
        _ if added.contains(&metric.name) => "sum",
        _ if least.contains(&metric.name) => "min",
        // Every process tells the same of a pipeline, also what others did.
        MetricKind::Counter if !metric.labels.contains(&"pipeline") => "sum",
        _ => "max",
    }
}
