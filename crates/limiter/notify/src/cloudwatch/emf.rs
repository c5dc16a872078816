//! Figures as lines in CloudWatch's embedded metric format: JSON objects that describe themselves.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tollway_core::Timestamp;

use crate::cloudwatch::data::Datum;

/// The most metrics that one line may describe.
const METRICS_PER_LINE: usize = 100;

/// The most values that a metric may have in a line.
const VALUES_MAX: u64 = 100;

/// One line for every set of dimensions, or more if it has too many metrics. Without line ends.
pub fn lines(namespace: &str, data: &[Datum], at: Timestamp) -> Vec<String> {
    let mut sets: BTreeMap<&[(String, String)], Vec<&Datum>> = BTreeMap::new();
    for datum in data {
        sets.entry(&datum.dimensions).or_default().push(datum);
    }
    let chunks = sets.iter().flat_map(|(dimensions, data)| {
        data.chunks(METRICS_PER_LINE).map(|chunk| line(namespace, dimensions, chunk, at))
    });
    chunks.collect()
}

fn line(namespace: &str, dimensions: &[(String, String)], data: &[&Datum], at: Timestamp) -> String {
    let names: Vec<&str> = dimensions.iter().map(|(name, _)| name.as_str()).collect();
    let metrics: Vec<Value> =
        data.iter().map(|datum| json!({ "Name": datum.name, "Unit": datum.unit.as_str() })).collect();
    let about = json!({
        "Timestamp": at.as_millis(),
        "CloudWatchMetrics": [{ "Namespace": namespace, "Dimensions": [names], "Metrics": metrics }],
    });
    let mut line = Map::from_iter([("_aws".to_owned(), about)]);
    line.extend(dimensions.iter().map(|(name, value)| (name.clone(), value.as_str().into())));
    line.extend(data.iter().map(|datum| (datum.name.clone(), values(datum))));
    Value::Object(line).to_string()
}

/// A number, or a list of them. A distribution of more than fit is scaled down: its percentiles stay.
fn values(datum: &Datum) -> Value {
    let all: u64 = datum.values.iter().map(|(_, count)| *count).sum();
    let kept = all.min(VALUES_MAX);
    let picked: Vec<Value> =
        (0..kept).map(|index| number(at_rank(&datum.values, index, kept, all))).collect();
    match <[Value; 1]>::try_from(picked) {
        Ok([only]) => only,
        Err(several) => several.into(),
    }
}

/// The value in the middle of the part of all values that this index stands for.
fn at_rank(values: &[(f64, u64)], index: u64, kept: u64, all: u64) -> f64 {
    let rank = u128::from(all) * u128::from(2 * index + 1) / u128::from(2 * kept.max(1));
    let mut below = 0_u128;
    let found = values.iter().find(|(_, count)| {
        below += u128::from(*count);
        below > rank
    });
    found.or(values.last()).map_or(0.0, |(value, _)| *value)
}

/// Without a fraction if it has none.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 { json!(value as u64) } else { json!(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudwatch::data::Unit;

    fn datum(values: Vec<(f64, u64)>) -> Datum {
        Datum { name: "Latency".to_owned(), unit: Unit::Milliseconds, dimensions: Vec::new(), values }
    }

    #[test]
    fn large_distribution_keeps_its_percentiles() {
        assert_eq!(values(&datum(vec![(3.5, 1)])), json!(3.5));
        assert_eq!(values(&datum(vec![(1.0, 2), (5.0, 1)])), json!([1, 1, 5]));
        let large = values(&datum(vec![(1.0, 9_000), (50.0, 800), (100.0, 200)]));
        let count = |value: u64| large.as_array().unwrap().iter().filter(|known| **known == value).count();
        assert_eq!([1, 50, 100].map(count), [90, 8, 2]);
    }

    #[test]
    fn line_has_at_most_a_hundred_metrics() {
        let data: Vec<Datum> =
            (0..250).map(|index| Datum { name: format!("M{index}"), ..datum(vec![(1.0, 1)]) }).collect();
        assert_eq!(lines("Tollway", &data, Timestamp::EPOCH).len(), 3);
    }
}
