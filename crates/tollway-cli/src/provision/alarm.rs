//! An alarm of CloudWatch on one metric.

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::types::{ComparisonOperator, Dimension, MetricAlarm, Statistic};
use serde_json::{Value, json};
use tollway_aws::{Connect, connect};

use super::error::{ProvisionError, failed};
use super::report::State;

/// A period of a minute: the shortest that costs no more.
pub(super) const PERIOD_SECONDS: i32 = 60;

/// A metric: where it is and how it is summed up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetricOf {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) dimensions: Vec<(String, String)>,
    /// `Sum`, `Maximum`, or a percentile: `p99`.
    pub(super) statistic: &'static str,
}

/// A needed alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AlarmSpec {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) metric: MetricOf,
    pub(super) comparison: Comparison,
    pub(super) threshold: u32,
    /// So many minutes in a row.
    pub(super) periods: i32,
    /// The topic that is told when it begins and when it is over.
    pub(super) topic: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    AtLeast,
    Above,
}

impl Comparison {
    fn operator(self) -> ComparisonOperator {
        match self {
            Self::AtLeast => ComparisonOperator::GreaterThanOrEqualToThreshold,
            Self::Above => ComparisonOperator::GreaterThanThreshold,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::AtLeast => "at least",
            Self::Above => "above",
        }
    }
}

impl MetricOf {
    fn is_percentile(&self) -> bool {
        self.statistic.starts_with('p')
    }
}

impl AlarmSpec {
    pub(super) fn details(&self) -> String {
        let Self { metric, comparison, threshold, periods, .. } = self;
        let minutes = if *periods == 1 { "a minute".to_owned() } else { format!("{periods} minutes") };
        format!("{} of {} {} {threshold} for {minutes}", metric.statistic, metric.name, comparison.word())
    }

    /// Its properties in a template.
    pub(super) fn properties(&self) -> Value {
        let MetricOf { namespace, name, dimensions, statistic } = &self.metric;
        let dimension = |(name, value): &(String, String)| json!({ "Name": name, "Value": value });
        let dimensions: Vec<Value> = dimensions.iter().map(dimension).collect();
        let mut properties = json!({
            "AlarmName": self.name,
            "AlarmDescription": self.description,
            "Namespace": namespace,
            "MetricName": name,
            "Dimensions": dimensions,
            "Period": PERIOD_SECONDS,
            "EvaluationPeriods": self.periods,
            "Threshold": self.threshold,
            "ComparisonOperator": self.comparison.operator().as_str(),
            "TreatMissingData": "notBreaching",
        });
        let key = if self.metric.is_percentile() { "ExtendedStatistic" } else { "Statistic" };
        properties[key] = (*statistic).into();
        if let Some(topic) = &self.topic {
            properties["AlarmActions"] = json!([topic]);
            properties["OKActions"] = json!([topic]);
        }
        properties
    }

    pub(super) async fn look(&self, to: &Connect) -> Result<State, ProvisionError> {
        let call = client(to).await.describe_alarms().alarm_names(&self.name).send().await;
        let found = call.map_err(|error| failed(&format!("looking for the alarm {}", self.name), &error))?;
        let alarm = found.metric_alarms().iter().find(|alarm| alarm.alarm_name() == Some(&self.name));
        Ok(match alarm {
            None => State::Missing,
            Some(alarm) if self.is_like(alarm) => State::Ready,
            Some(_) => State::Incomplete("its condition or its topic is another".to_owned()),
        })
    }

    /// Creates it, or replaces one of its name.
    pub(super) async fn make(&self, to: &Connect) -> Result<(), ProvisionError> {
        let MetricOf { namespace, name, dimensions, statistic } = &self.metric;
        let dimensions =
            dimensions.iter().map(|(name, value)| Dimension::builder().name(name).value(value).build());
        let topic = || self.topic.clone().map(|topic| vec![topic]);
        let mut call = client(to)
            .await
            .put_metric_alarm()
            .alarm_name(&self.name)
            .alarm_description(&self.description)
            .namespace(namespace)
            .metric_name(name)
            .set_dimensions(Some(dimensions.collect()))
            .period(PERIOD_SECONDS)
            .evaluation_periods(self.periods)
            .threshold(self.threshold.into())
            .comparison_operator(self.comparison.operator())
            .treat_missing_data("notBreaching")
            .set_alarm_actions(topic())
            .set_ok_actions(topic());
        call = match self.metric.is_percentile() {
            true => call.extended_statistic(*statistic),
            false => call.statistic(Statistic::from(*statistic)),
        };
        let put = call.send().await;
        put.map(drop).map_err(|error| failed(&format!("creating the alarm {}", self.name), &error))
    }

    pub(super) async fn remove(&self, to: &Connect) -> Result<(), ProvisionError> {
        let removed = client(to).await.delete_alarms().alarm_names(&self.name).send().await;
        removed.map(drop).map_err(|error| failed(&format!("deleting the alarm {}", self.name), &error))
    }

    fn is_like(&self, found: &MetricAlarm) -> bool {
        let MetricOf { namespace, name, dimensions, statistic } = &self.metric;
        let mut has: Vec<(&str, &str)> = found
            .dimensions()
            .iter()
            .map(|dimension| (dimension.name().unwrap_or_default(), dimension.value().unwrap_or_default()))
            .collect();
        let mut wants: Vec<(&str, &str)> =
            dimensions.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        has.sort_unstable();
        wants.sort_unstable();
        let by = found.extended_statistic().or(found.statistic().map(Statistic::as_str));
        let topic: Vec<String> = self.topic.iter().cloned().collect();
        (found.namespace(), found.metric_name()) == (Some(namespace.as_str()), Some(name.as_str()))
            && has == wants
            && by == Some(*statistic)
            && found.threshold() == Some(self.threshold.into())
            && found.comparison_operator() == Some(&self.comparison.operator())
            && (found.period(), found.evaluation_periods()) == (Some(PERIOD_SECONDS), Some(self.periods))
            && found.alarm_actions() == topic
            && found.ok_actions() == topic
    }
}

async fn client(to: &Connect) -> Client {
    Client::new(&connect(to).await)
}
