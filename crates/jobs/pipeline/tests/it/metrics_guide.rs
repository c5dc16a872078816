//! The guide lists every metric of a pipeline.

use tollway_pipeline::run::metrics::PIPELINE_METRICS;

#[test]
fn guide_lists_every_metric_of_a_pipeline() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guide/metrics.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let table = guide.split("<!-- pipeline metrics begin -->").nth(1).unwrap();
    let table = table.split("<!-- pipeline metrics end -->").next().unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    let labels =
        |labels: &[&str]| labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
    let expected = PIPELINE_METRICS.map(|metric| {
        let (kind, labels) = (metric.kind.word(), labels(metric.labels));
        format!("| `{}` | {kind} | {} | {labels} | {} |", metric.name, metric.unit, metric.meaning)
    });
    assert_eq!(rows, expected);
}
