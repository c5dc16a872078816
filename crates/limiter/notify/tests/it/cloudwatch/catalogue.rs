//! The page on metrics lists what is sent to CloudWatch. `TOLLWAY_BLESS=1` rewrites it.

use tollway::metrics::{METRICS, Metric};
use tollway_notify::cloudwatch::dimension_name;
use tollway_pipeline::run::metrics::PIPELINE_METRICS;

fn row(metric: &Metric) -> Option<String> {
    let labels = metric.labels.iter().filter(|label| !["pipeline", "stage"].contains(label));
    let dimensions: Vec<String> = labels.map(|label| format!("`{}`", dimension_name(label))).collect();
    let name = metric.cloudwatch?.replace("{Stage}", "<Stage>");
    Some(format!("| `{name}` | {} | `{}` |\n", dimensions.join(", "), metric.name))
}

/// G10, P6: one list of metrics for Prometheus and CloudWatch.
#[test]
fn page_lists_what_is_sent() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guide/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once("<!-- cloudwatch begin -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- cloudwatch end -->").unwrap();
    let rows: String = METRICS.into_iter().chain(PIPELINE_METRICS).filter_map(row).collect();
    let table = format!("| in CloudWatch | dimensions | in Prometheus |\n| --- | --- | --- |\n{rows}");
    let wanted = format!("{before}<!-- cloudwatch begin -->\n{table}<!-- cloudwatch end -->{after}");
    if std::env::var_os("TOLLWAY_BLESS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), wanted, "TOLLWAY_BLESS=1 rewrites the page");
}

/// No two metrics share a name in CloudWatch, and the documents' names are there.
#[test]
fn names_are_unique_and_the_documented_ones() {
    let names: Vec<&str> =
        METRICS.into_iter().chain(PIPELINE_METRICS).filter_map(|metric| metric.cloudwatch).collect();
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{name}");
    }
    for name in [
        "RateLimiterTokensAcquired",
        "RateLimiterTokensAvailable",
        "RateLimiterAcquisitionLatency",
        "RateLimiterAcquisitionFailures",
        "RateLimiterFallbackActivated",
        "{Stage}Success",
        "{Stage}RateLimited",
    ] {
        assert!(names.contains(&name), "{name}");
    }
}
