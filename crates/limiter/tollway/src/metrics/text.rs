//! Samples as Prometheus reads them: its text format, version 0.0.4.

use std::fmt::Write;

use tollway_core::{LATENCY_BOUNDS_MS, Latencies, TALLY_BOUNDS, Tallies};

use super::{Figure, Metric, MetricKind, Sample};

/// The samples as text. Those of one metric must follow one another, as [`Limiter::samples`](crate::Limiter::samples)
/// has them.
///
/// Latencies of a policy are shown as their sum and count, a summary; [`prometheus_text_full`] has their buckets, too: 13 lines
/// more for each limit.
pub fn prometheus_text(samples: &[Sample]) -> String {
    text_of(samples, false)
}

/// The same with the buckets of every histogram.
pub fn prometheus_text_full(samples: &[Sample]) -> String {
    text_of(samples, true)
}

fn text_of(samples: &[Sample], full: bool) -> String {
    let mut text = String::new();
    let mut last = "";
    for sample in samples {
        let metric = sample.metric;
        if metric.name != last {
            last = metric.name;
            let _ = writeln!(text, "# HELP {} {}", metric.name, metric.meaning);
            let kind = if full || has_buckets(metric) { metric.kind.word() } else { "summary" };
            let _ = writeln!(text, "# TYPE {} {kind}", metric.name);
        }
        let labels: Vec<String> = metric
            .labels
            .iter()
            .zip(&sample.labels)
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        match &sample.figure {
            Figure::Number(number) => write_line(&mut text, metric.name, &labels, number),
            Figure::Millionths(millionths) => {
                write_line(&mut text, metric.name, &labels, &seconds(u128::from(*millionths)));
            }
            Figure::Latencies(latencies) if full || has_buckets(metric) => {
                write_latencies(&mut text, metric.name, labels, latencies);
            }
            Figure::Latencies(latencies) => {
                let count = latencies.counts.iter().fold(0, |sum: u64, count| sum.wrapping_add(*count));
                let sum = seconds(latencies.sum.as_micros());
                write_sum_and_count(&mut text, metric.name, &labels, &sum, count);
            }
            Figure::Tallies(tallies) => write_tallies(&mut text, metric.name, labels, tallies),
        }
    }
    text
}

/// Whether its buckets are few: those of a policy would be most of all lines.
fn has_buckets(metric: &Metric) -> bool {
    metric.kind != MetricKind::Histogram || !metric.labels.contains(&"policy")
}

fn write_latencies(text: &mut String, name: &str, labels: Vec<String>, latencies: &Latencies) {
    let bounds = LATENCY_BOUNDS_MS.iter().map(|millis| seconds(u128::from(*millis) * 1_000));
    write_buckets(text, name, labels, bounds, &latencies.counts, &seconds(latencies.sum.as_micros()));
}

fn write_tallies(text: &mut String, name: &str, labels: Vec<String>, tallies: &Tallies) {
    let bounds = TALLY_BOUNDS.iter().map(ToString::to_string);
    write_buckets(text, name, labels, bounds, &tallies.counts, &tallies.sum.to_string());
}

fn write_buckets(
    text: &mut String,
    name: &str,
    mut labels: Vec<String>,
    bounds: impl Iterator<Item = String>,
    counts: &[u64],
    sum: &str,
) {
    let (mut all, bucket) = (0u64, format!("{name}_bucket"));
    for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(counts) {
        all = all.wrapping_add(*count);
        labels.push(format!("le=\"{bound}\""));
        write_line(text, &bucket, &labels, &all);
        labels.pop();
    }
    write_sum_and_count(text, name, &labels, sum, all);
}

fn write_sum_and_count(text: &mut String, name: &str, labels: &[String], sum: &str, count: u64) {
    write_line(text, &format!("{name}_sum"), labels, &sum);
    write_line(text, &format!("{name}_count"), labels, &count);
}

fn write_line(text: &mut String, name: &str, labels: &[String], value: &dyn std::fmt::Display) {
    let _ = match labels {
        [] => writeln!(text, "{name} {value}"),
        labels => writeln!(text, "{name}{{{}}} {value}", labels.join(",")),
    };
}

/// Microseconds as seconds, exactly.
fn seconds(micros: u128) -> String {
    let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
    let text = format!("{whole}.{part:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes characters that would end the value or its line.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::METRICS;
    use super::*;

    const TIMES: Metric = Metric {
        name: "t",
        kind: MetricKind::Histogram,
        unit: "seconds",
        labels: &["p"],
        meaning: "times",
        cloudwatch: None,
    };

    #[test]
    fn a_histogram_adds_up_and_a_label_stays_in_its_line() {
        let mut latencies = Latencies { sum: Duration::from_micros(1_250_001), ..Latencies::default() };
        (latencies.counts[0], latencies.counts[5], latencies.counts[11]) = (2, 1, 1);
        let figure = Figure::Latencies(Box::new(latencies));
        let sample = Sample { metric: &TIMES, labels: vec!["a\"\n\\".to_owned()], figure };
        let text = prometheus_text(&[sample]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["# HELP t times", "# TYPE t histogram"]);
        assert_eq!(lines[2], r#"t_bucket{p="a\"\n\\",le="0.001"} 2"#);
        assert_eq!(lines[7], r#"t_bucket{p="a\"\n\\",le="0.05"} 3"#);
        assert_eq!(lines[13], r#"t_bucket{p="a\"\n\\",le="+Inf"} 4"#);
        assert_eq!(lines[14..], [r#"t_sum{p="a\"\n\\"} 1.250001"#, r#"t_count{p="a\"\n\\"} 4"#]);
    }

    /// Fifteen lines for each limit of each policy would be most of a page.
    #[test]
    fn latencies_of_a_policy_have_buckets_only_in_the_full_text() {
        const OF_POLICY: Metric = Metric { labels: &["policy"], ..TIMES };
        let latencies = Latencies { sum: Duration::from_micros(2_000), ..Latencies::default() };
        let figure = Figure::Latencies(Box::new(latencies));
        let samples = [Sample { metric: &OF_POLICY, labels: vec!["a".to_owned()], figure }];
        let short =
            ["# HELP t times", "# TYPE t summary", "t_sum{policy=\"a\"} 0.002", "t_count{policy=\"a\"} 0"];
        assert_eq!(prometheus_text(&samples).lines().collect::<Vec<_>>(), short);
        let full = prometheus_text_full(&samples);
        assert!(
            full.contains("# TYPE t histogram") && full.contains("t_bucket{policy=\"a\",le=\"+Inf\"} 0"),
            "{full}"
        );
    }

    #[test]
    fn a_histogram_of_numbers_has_numbers_for_bounds() {
        let tallies = Tallies { counts: [4, 2, 0, 0, 0, 0, 0, 0, 1], sum: 73 };
        let figure = Figure::Tallies(Box::new(tallies));
        let text = prometheus_text(&[Sample { metric: &TIMES, labels: vec!["a".to_owned()], figure }]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2..4], [r#"t_bucket{p="a",le="0"} 4"#, r#"t_bucket{p="a",le="1"} 6"#]);
        assert_eq!(lines[9..11], [r#"t_bucket{p="a",le="50"} 6"#, r#"t_bucket{p="a",le="+Inf"} 7"#]);
        assert_eq!(lines[11..], [r#"t_sum{p="a"} 73"#, r#"t_count{p="a"} 7"#]);
    }

    #[test]
    fn no_two_metrics_have_one_name_and_no_label_is_a_subject() {
        for (index, metric) in METRICS.iter().enumerate() {
            assert!(METRICS[..index].iter().all(|other| other.name != metric.name), "{}", metric.name);
            assert!(metric.labels.iter().all(|label| !["subject", "key", "address"].contains(label)));
        }
    }
}
