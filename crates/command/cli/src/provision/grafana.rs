//! `tollway provision grafana`: a dashboard with every metric of the catalogue.

use serde_json::{Value, json};
use tollway::metrics::{Metric, MetricKind};

use super::watched::{Topic, metrics, query};
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Grafana's grid has so many columns.
const COLUMNS: usize = 24;
const PANEL_WIDTH: usize = 8;
const PANEL_HEIGHT: usize = 7;
/// Of the JSON, as Grafana 10.4 writes it; later versions read it.
const SCHEMA: u32 = 39;

/// Print a Grafana dashboard of every metric
///
/// Import the JSON in Grafana (Dashboards, New, Import), or put it where Grafana provisions dashboards from. It asks for the
/// Prometheus that reads `/metrics` of your processes. The first row says which limit is the bottleneck, who waits, and whose
/// refusals there were; below it every metric has a panel. Needs no config and no store.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway provision grafana > tollway.json
  tollway provision prometheus > tollway-alerts.yml    the alerts to it")]
pub(super) struct Arguments {}

pub(super) fn run(context: &Context) -> Result<Exit, Failure> {
    let text = serde_json::to_string_pretty(&dashboard()).map_err(std::io::Error::from)?;
    context.output().line(text)?;
    Ok(Exit::DONE)
}

fn dashboard() -> Value {
    let mut grid = Grid::default();
    grid.row("At a glance");
    first_panels().into_iter().for_each(|panel| grid.add(panel));
    for topic in Topic::ALL {
        grid.row(topic.title());
        metrics()
            .into_iter()
            .filter(|metric| Topic::of(metric) == topic)
            .for_each(|metric| grid.add(panel_of(metric)));
    }
    json!({
        "title": "Tollway",
        "uid": "tollway",
        "description": "Made by `tollway provision grafana`.",
        "tags": ["tollway"],
        "schemaVersion": SCHEMA,
        "editable": true,
        "refresh": "30s",
        "time": { "from": "now-1h", "to": "now" },
        "templating": { "list": variables() },
        "panels": grid.panels,
    })
}

/// The data source, and which policies, apis and pipelines are shown.
fn variables() -> Vec<Value> {
    let source =
        json!({ "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus" });
    let choice = |name: &str, metric: &str| {
        json!({
            "name": name,
            "type": "query",
            "datasource": { "type": "prometheus", "uid": "${datasource}" },
            "query": format!("label_values({metric}, {name})"),
            "refresh": 2,
            "sort": 1,
            "multi": true,
            "includeAll": true,
            "allValue": ".*",
            "current": { "text": "All", "value": "$__all" },
        })
    };
    vec![
        source,
        choice("policy", "tollway_decisions_total"),
        choice("api", "tollway_refusals_total"),
        choice("pipeline", "tollway_pipeline_queue_depth"),
    ]
}

/// What is looked at first: the bottleneck, demand beside amounts, who waits, whose refusals, what went wrong.
fn first_panels() -> Vec<Panel> {
    let asked = "max by (policy, limit) (tollway_used_ratio{policy=~\"$policy\"}) \
                 * on (policy, limit) max by (policy, limit) (tollway_limit_amount{policy=~\"$policy\"})";
    let amount = "max by (policy, limit) (tollway_limit_amount{policy=~\"$policy\"})";
    let waiting = "sum by (policy) (tollway_waiting_callers{policy=~\"$policy\"}) > 0";
    let refused =
        "sum by (api, whose, reason) (rate(tollway_refusals_total{api=~\"$api\"}[$__rate_interval])) > 0";
    let fullest = "topk(10, max by (policy, limit) (tollway_used_ratio{policy=~\"$policy\"}))";
    let trouble = [
        ("max(tollway_store_degraded)", "without the store"),
        ("sum(increase(tollway_incidents_total[1h]))", "vendor refused despite a permit, 1 h"),
        ("sum(max by (pipeline, stage) (tollway_pipeline_dead_letters))", "dead letters"),
        ("max(tollway_config_wrong)", "config wrong"),
    ];
    vec![
        Panel::new(
            "Fullest limits",
            "bargauge",
            "percentunit",
            "used and denied over the amount; above 100 %, takes were denied",
        )
        .ask(fullest, "{{policy}} {{limit}}"),
        Panel::new(
            "Asked for, beside the amount",
            "timeseries",
            "short",
            "in the units of each limit; the amount is a line",
        )
        .ask(asked, "{{policy}} {{limit}}")
        .ask(amount, "{{policy}} {{limit}} amount"),
        Panel::new("Waiting callers", "timeseries", "short", "callers that wait for a permit")
            .ask(waiting, "{{policy}}"),
        Panel::new("How long a new caller waits", "timeseries", "s", "at least, as far as it is known")
            .ask("max by (policy) (tollway_waiting_seconds{policy=~\"$policy\"}) > 0", "{{policy}}"),
        Panel::new(
            "Whose refusals",
            "timeseries",
            "short",
            "calls of apis a second that were refused: by our limit, or by the vendor",
        )
        .ask(refused, "{{api}} {{whose}} {{reason}}"),
        trouble.into_iter().fold(
            Panel::new("What went wrong", "stat", "short", "all of these should be 0"),
            |panel, (query, legend)| panel.ask(query, legend),
        ),
    ]
}

/// The panel of one metric.
fn panel_of(metric: &Metric) -> Panel {
    let unit = match metric.kind {
        MetricKind::Counter => "short",
        _ if metric.unit == "seconds" => "s",
        _ if metric.name.ends_with("_ratio") => "percentunit",
        _ => "short",
    };
    let what = match (metric.kind, metric.unit) {
        (MetricKind::Counter, unit) => format!(" ({unit} a second)"),
        (MetricKind::Histogram, unit) => format!(" (mean, {unit})"),
        (MetricKind::Gauge, "" | "seconds") => String::new(),
        (MetricKind::Gauge, unit) => format!(" ({unit})"),
    };
    let legend: Vec<String> = metric.labels.iter().map(|label| format!("{{{{{label}}}}}")).collect();
    Panel::new(&format!("{}{what}", metric.name), "timeseries", unit, metric.meaning).ask(
        &query(metric),
        if legend.is_empty() { metric.name.to_owned() } else { legend.join(" ") }.as_str(),
    )
}

/// A panel without its place.
struct Panel {
    title: String,
    kind: &'static str,
    unit: &'static str,
    description: String,
    queries: Vec<(String, String)>,
}

impl Panel {
    fn new(title: &str, kind: &'static str, unit: &'static str, description: &str) -> Self {
        Self { title: title.to_owned(), kind, unit, description: description.to_owned(), queries: Vec::new() }
    }

    fn ask(mut self, query: &str, legend: &str) -> Self {
        self.queries.push((query.to_owned(), legend.to_owned()));
        self
    }

    fn json(&self, id: usize, column: usize, row: usize) -> Value {
        let source = || json!({ "type": "prometheus", "uid": "${datasource}" });
        let targets = self.queries.iter().zip('A'..).map(|((query, legend), letter)| {
            json!({ "refId": letter.to_string(), "datasource": source(), "expr": query, "legendFormat": legend })
        });
        let bars = self.kind == "bargauge";
        let steps = json!([
            { "color": "green", "value": null },
            { "color": "orange", "value": 0.8 },
            { "color": "red", "value": 1 },
        ]);
        let plain = json!([{ "color": "green", "value": null }]);
        let thresholds =
            json!({ "mode": "absolute", "steps": if self.unit == "percentunit" { steps } else { plain } });
        let mut defaults = json!({ "unit": self.unit, "min": 0, "thresholds": thresholds });
        if self.unit == "percentunit" && !bars {
            defaults["custom"] = json!({ "thresholdsStyle": { "mode": "line" } });
        }
        json!({
            "id": id,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": source(),
            "gridPos": { "x": column, "y": row, "w": PANEL_WIDTH, "h": PANEL_HEIGHT },
            "fieldConfig": { "defaults": defaults, "overrides": [] },
            "options": options(self.kind),
            "targets": targets.collect::<Vec<_>>(),
        })
    }
}

fn options(kind: &str) -> Value {
    let last = json!({ "calcs": ["lastNotNull"], "fields": "", "values": false });
    match kind {
        "bargauge" => {
            json!({ "orientation": "horizontal", "displayMode": "gradient", "reduceOptions": last })
        }
        "stat" => {
            json!({ "colorMode": "value", "graphMode": "none", "textMode": "value_and_name", "reduceOptions": last })
        }
        _ => {
            json!({ "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi", "sort": "desc" } })
        }
    }
}

/// Panels from left to right, under titles.
#[derive(Default)]
struct Grid {
    panels: Vec<Value>,
    column: usize,
    row: usize,
}

impl Grid {
    fn row(&mut self, title: &str) {
        if self.column > 0 {
            (self.column, self.row) = (0, self.row + PANEL_HEIGHT);
        }
        self.panels.push(json!({
            "id": self.panels.len() + 1,
            "type": "row",
            "title": title,
            "collapsed": false,
            "gridPos": { "x": 0, "y": self.row, "w": COLUMNS, "h": 1 },
            "panels": [],
        }));
        self.row += 1;
    }

    fn add(&mut self, panel: Panel) {
        self.panels.push(panel.json(self.panels.len() + 1, self.column, self.row));
        self.column += PANEL_WIDTH;
        if self.column >= COLUMNS {
            (self.column, self.row) = (0, self.row + PANEL_HEIGHT);
        }
    }
}
