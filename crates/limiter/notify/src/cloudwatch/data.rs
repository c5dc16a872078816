//! From samples, which count since the start, to what happened since the last look, in the words of CloudWatch.

use std::collections::HashMap;

use tollway::metrics::{Figure, Metric, MetricKind, Sample};
use tollway_core::{LATENCY_BOUNDS_MS, TALLY_BOUNDS};

/// Series that are remembered. The config bounds them; a mistake there must not cost a fortune.
const SERIES_MAX: usize = 10_000;

/// What is beyond the last bound of a histogram counts as twice that bound.
const BEYOND: u64 = 2;

/// The label that stands in the names of metrics, and the one that a namespace stands for.
const NO_DIMENSIONS: [&str; 2] = ["stage", "pipeline"];

/// The dimensions that figures may have.
pub(crate) const OUR_DIMENSIONS: [&str; 4] = ["Policy", "Limit", "Event", "Operation"];

/// The unit of a figure, as CloudWatch names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// How many.
    Count,
    /// How long.
    Milliseconds,
    /// Neither: 0 or 1, or a rate.
    None,
}

impl Unit {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Milliseconds => "Milliseconds",
            Self::None => "None",
        }
    }
}

/// A figure of one metric since the last look.
#[derive(Clone, Debug, PartialEq)]
pub struct Datum {
    /// The metric.
    pub name: String,
    /// The unit.
    pub unit: Unit,
    /// Names and values.
    pub dimensions: Vec<(String, String)>,
    /// Each value, and how often it was seen.
    pub values: Vec<(f64, u64)>,
}

/// The series that were seen, so that counters become differences.
#[derive(Debug, Default)]
pub struct Series {
    last: HashMap<(&'static str, Vec<String>), Vec<u64>>,
    left_out: u64,
}

impl Series {
    /// What happened since the last look. A counter that did not move is left out; a gauge never is.
    pub fn since_last(&mut self, samples: &[Sample], extra: &[(String, String)]) -> Vec<Datum> {
        samples.iter().filter_map(|sample| self.datum(sample, extra)).collect()
    }

    /// How many figures were left out because there are too many series.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    fn datum(&mut self, sample: &Sample, extra: &[(String, String)]) -> Option<Datum> {
        let name = metric_name(sample.metric, &sample.labels)?;
        let (unit, values) = match &sample.figure {
            Figure::Number(number) if sample.metric.kind == MetricKind::Counter => {
                (Unit::Count, vec![(self.moved(sample, &[*number])?.first().copied()? as f64, 1)])
            }
            Figure::Number(number) => (unit_of(sample.metric), vec![(*number as f64, 1)]),
            Figure::Millionths(millionths) => (Unit::None, vec![(*millionths as f64 / 1e6, 1)]),
            Figure::Latencies(latencies) => {
                let counts = self.moved(sample, &latencies.counts)?;
                (Unit::Milliseconds, buckets(&LATENCY_BOUNDS_MS, &counts))
            }
            Figure::Tallies(tallies) => {
                let counts = self.moved(sample, &tallies.counts)?;
                (Unit::Count, buckets(&TALLY_BOUNDS, &counts))
            }
        };
        let labels = sample.metric.labels.iter().zip(&sample.labels);
        let own = labels.filter(|(label, _)| !NO_DIMENSIONS.contains(label));
        let own = own.map(|(label, value)| (dimension_name(label), value.clone()));
        Some(Datum { name, unit, dimensions: extra.iter().cloned().chain(own).collect(), values })
    }

    /// How far counters have moved; none if they have not.
    fn moved(&mut self, sample: &Sample, now: &[u64]) -> Option<Vec<u64>> {
        let key = (sample.metric.name, sample.labels.clone());
        if self.last.len() >= SERIES_MAX && !self.last.contains_key(&key) {
            self.left_out += 1;
            return None;
        }
        let last = self.last.insert(key, now.to_vec()).unwrap_or_default();
        let before = last.iter().copied().chain(std::iter::repeat(0));
        // A counter that went back started again.
        let moved: Vec<u64> =
            now.iter().zip(before).map(|(now, before)| now.checked_sub(before).unwrap_or(*now)).collect();
        moved.iter().any(|count| *count > 0).then_some(moved)
    }
}

/// The upper bound of each bucket that has something in it.
fn buckets(bounds: &[u64], counts: &[u64]) -> Vec<(f64, u64)> {
    let beyond = bounds.last().copied().unwrap_or_default() * BEYOND;
    let bounds = bounds.iter().copied().chain([beyond]);
    let filled = bounds.zip(counts).filter(|(_, count)| **count > 0);
    filled.map(|(bound, count)| (bound as f64, *count)).collect()
}

fn unit_of(metric: &Metric) -> Unit {
    if metric.unit.is_empty() { Unit::None } else { Unit::Count }
}

/// The name of a metric in CloudWatch; none if it is not sent there. `labels` are in the order of the metric's.
pub fn metric_name(metric: &Metric, labels: &[String]) -> Option<String> {
    let name = metric.cloudwatch?;
    let stage = metric.labels.iter().zip(labels).find(|(label, _)| **label == "stage");
    Some(match stage {
        Some((_, stage)) => name.replace("{Stage}", &pascal_case(stage)),
        None => name.to_owned(),
    })
}

/// The dimension of a label: `Policy` of `policy`.
pub fn dimension_name(label: &str) -> String {
    pascal_case(label)
}

/// `PostProcessing` of `post-processing`.
pub fn pascal_case(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    words.map(capital).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    static CALLS: Metric = Metric {
        name: "calls",
        kind: MetricKind::Counter,
        unit: "calls",
        labels: &["pipeline", "stage"],
        meaning: "",
        cloudwatch: Some("{Stage}Calls"),
    };

    fn sample(count: u64) -> Vec<Sample> {
        let labels = vec!["pdf".to_owned(), "post-processing".to_owned()];
        vec![Sample { metric: &CALLS, labels, figure: Figure::Number(count) }]
    }

    #[test]
    fn counters_become_differences_and_survive_a_restart() {
        let mut series = Series::default();
        let mut values = |count| {
            let data = series.since_last(&sample(count), &[]);
            data.iter().map(|datum| (datum.name.clone(), datum.values[0].0)).collect::<Vec<_>>()
        };
        let named = |value| vec![("PostProcessingCalls".to_owned(), value)];
        assert_eq!(values(5), named(5.0));
        assert_eq!(values(5), []);
        assert_eq!(values(7), named(2.0));
        assert_eq!(values(3), named(3.0), "it started again");
    }

    #[test]
    fn histogram_is_its_filled_buckets_by_their_upper_bounds() {
        assert_eq!(buckets(&[1, 2, 5], &[3, 0, 1, 2]), [(1.0, 3), (5.0, 1), (10.0, 2)]);
    }

    #[test]
    fn stage_is_part_of_the_name_and_no_dimension() {
        let extra = [("Environment".to_owned(), "test".to_owned())];
        let data = Series::default().since_last(&sample(1), &extra);
        assert_eq!(data[0].dimensions, extra);
        assert_eq!(["autotag", "auto_tag2", "AutoTag"].map(pascal_case), ["Autotag", "AutoTag2", "AutoTag"]);
    }
}
