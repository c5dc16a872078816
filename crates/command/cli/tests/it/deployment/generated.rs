//! The dashboard and the alert rules.

use tollway::metrics::METRICS;
use tollway_pipeline::run::metrics::PIPELINE_METRICS;
use tollway_server::SERVER_METRICS;

use super::{file, read};
use crate::home::Home;

fn printed(what: &str) -> String {
    let output = Home::new().tollway(&["provision", what]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// G10, D4: the committed files are those that the command makes of the catalogue.
#[test]
fn committed_files_are_what_the_command_prints() {
    for (what, path) in [("grafana", "grafana/tollway.json"), ("prometheus", "prometheus/alerts.yml")] {
        let text = printed(what);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(file(path), &text).unwrap();
        }
        assert_eq!(read(path), text, "UPDATE_GOLDEN=1 rewrites deploy/{path}");
    }
}

/// Every metric of the catalogue has a panel, and no panel overlaps another.
#[test]
fn the_dashboard_shows_every_metric() {
    let dashboard: serde_json::Value = serde_json::from_str(&printed("grafana")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries = |panel: &serde_json::Value| -> Vec<String> {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
    };
    let all: Vec<String> = panels.iter().flat_map(queries).collect();
    for metric in METRICS.into_iter().chain(SERVER_METRICS).chain(PIPELINE_METRICS) {
        assert!(all.iter().any(|query| query.contains(metric.name)), "{}", metric.name);
    }
    let mut taken = std::collections::HashSet::new();
    for panel in panels {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{panel}");
        for cell in
            (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(taken.insert(cell), "{panel}");
        }
    }
    let mut ids: Vec<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), panels.len());
}
