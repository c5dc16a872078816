//! An alarm of CloudWatch on one metric.

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::types::{ComparisonOperator, Dimension, MetricAlarm, Statistic, Tag};
use serde_json::{Value, json};

use super::account::Account;
use super::error::ProvisionError;
use super::made_by::{TAG, TAG_VALUE, has_tag};
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

    pub(super) async fn look(&self, account: &Account) -> Result<State, ProvisionError> {
        Ok(match self.find(account).await? {
            None => State::Missing,
            Some(alarm) if self.is_like(&alarm) => State::Ready,
            Some(_) => State::Incomplete("its condition or its topic is another".to_owned()),
        })
    }

    async fn find(&self, account: &Account) -> Result<Option<MetricAlarm>, ProvisionError> {
        let call = Client::new(&account.config).describe_alarms().alarm_names(&self.name).send().await;
        let found = call
            .map_err(|error| account.failed(&format!("looking for the alarm {}", self.name), &error))?
            .metric_alarms
            .unwrap_or_default();
        Ok(found.into_iter().find(|alarm| alarm.alarm_name() == Some(&self.name)))
    }

    pub(super) async fn is_ours(&self, account: &Account) -> Result<bool, ProvisionError> {
        let found = self.find(account).await?.and_then(|alarm| alarm.alarm_arn);
        let Some(arn) = found else { return Ok(false) };
        let tags = Client::new(&account.config).list_tags_for_resource().resource_arn(arn).send().await;
        let tags = tags.map_err(|error| {
            account.failed(&format!("reading the tags of the alarm {}", self.name), &error)
        })?;
        let tags = tags.tags().iter();
        Ok(has_tag(tags.map(|tag| (tag.key().unwrap_or_default(), tag.value().unwrap_or_default()))))
    }

    /// Creates it, or replaces one of its name, whose tags stay.
    pub(super) async fn make(&self, account: &Account) -> Result<(), ProvisionError> {
        let MetricOf { namespace, name, dimensions, statistic } = &self.metric;
        let dimensions =
            dimensions.iter().map(|(name, value)| Dimension::builder().name(name).value(value).build());
        let topic = || self.topic.clone().map(|topic| vec![topic]);
        let mut call = Client::new(&account.config)
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
            .set_ok_actions(topic())
            .tags(Tag::builder().key(TAG).value(TAG_VALUE).build());
        call = match self.metric.is_percentile() {
            true => call.extended_statistic(*statistic),
            false => call.statistic(Statistic::from(*statistic)),
        };
        let put = call.send().await;
        put.map(drop).map_err(|error| account.failed(&format!("creating the alarm {}", self.name), &error))
    }

    pub(super) async fn remove(&self, account: &Account) -> Result<(), ProvisionError> {
        let removed = Client::new(&account.config).delete_alarms().alarm_names(&self.name).send().await;
        removed
            .map(drop)
            .map_err(|error| account.failed(&format!("deleting the alarm {}", self.name), &error))
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
