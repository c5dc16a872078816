//! Calls of `PutMetricData`: in batches, with a bounded backlog for the time that CloudWatch does not answer.

use std::collections::VecDeque;
use std::time::Duration;

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::error::ProvideErrorMetadata;
use aws_sdk_cloudwatch::types::{Dimension, MetricDatum, StandardUnit};
use aws_smithy_types::DateTime;
use tollway_aws::{Access, Connect, check_region, connect, with_causes};
use tollway_core::Timestamp;

use crate::cloudwatch::data::{Datum, Unit};
use crate::cloudwatch::{CloudWatchConfig, PublishError};

/// Figures of one call. CloudWatch takes 1,000 and 1 MB; each may have twenty dimensions.
const BATCH_MAX: usize = 200;

/// Figures that wait while CloudWatch does not take them; the oldest go first.
const BACKLOG_MAX: usize = 20_000;

/// A call is answered within this time, or it has failed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Codes of errors that the same call would get again.
const REFUSED: [&str; 4] =
    ["InvalidParameterValue", "InvalidParameterCombination", "MissingParameter", "ValidationError"];

/// The way to CloudWatch.
pub(crate) struct PutClient {
    client: Client,
    namespace: String,
    backlog: VecDeque<MetricDatum>,
    /// Whether the last call failed, so that the log says it once.
    is_failing: bool,
}

impl PutClient {
    pub(crate) async fn new(config: &CloudWatchConfig, access: Option<Access>) -> Result<Self, PublishError> {
        let (region, endpoint) = (config.region.clone(), config.endpoint.clone());
        let to = Connect { region, endpoint, access, timeout: Some(TIMEOUT) };
        let aws = connect(&to).await;
        check_region(&aws).map_err(|_| PublishError::NoRegion)?;
        let namespace = config.namespace.clone();
        Ok(Self { client: Client::new(&aws), namespace, backlog: VecDeque::new(), is_failing: false })
    }

    /// Sends everything that waits. Returns how many figures were dropped.
    pub(crate) async fn send(&mut self, data: Vec<Datum>, at: Timestamp) -> u64 {
        self.backlog.extend(data.into_iter().map(|datum| metric_datum(datum, at)));
        let excess = self.backlog.len().saturating_sub(BACKLOG_MAX);
        self.backlog.drain(..excess);
        let mut dropped = excess;
        while !self.backlog.is_empty() {
            let batch = self.backlog.len().min(BATCH_MAX);
            let data: Vec<MetricDatum> = self.backlog.iter().take(batch).cloned().collect();
            let call = self.client.put_metric_data().namespace(&self.namespace).set_metric_data(Some(data));
            match call.send().await {
                Ok(_) => self.is_failing = false,
                Err(error) if error.code().is_some_and(|code| REFUSED.contains(&code)) => {
                    let message = error.message().unwrap_or("no reason given");
                    tracing::error!(
                        figures = batch,
                        "CloudWatch refused figures, which are dropped: {message}"
                    );
                    dropped += batch;
                }
                Err(error) => {
                    self.tell(&with_causes(&error), error.code());
                    break;
                }
            }
            self.backlog.drain(..batch);
        }
        dropped.try_into().unwrap_or(u64::MAX)
    }

    /// How many figures wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.backlog.len().try_into().unwrap_or(u64::MAX)
    }

    fn tell(&mut self, causes: &str, code: Option<&str>) {
        if !self.is_failing {
            self.is_failing = true;
            let why = code.unwrap_or(causes);
            tracing::warn!(why, "CloudWatch does not take figures; they are sent again with the next ones");
        }
    }
}

fn metric_datum(datum: Datum, at: Timestamp) -> MetricDatum {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    let dimension = |(name, value): &(String, String)| Dimension::builder().name(name).value(value).build();
    let mut built = MetricDatum::builder()
        .metric_name(&datum.name)
        .unit(match datum.unit {
            Unit::Count => StandardUnit::Count,
            Unit::Milliseconds => StandardUnit::Milliseconds,
            Unit::None => StandardUnit::None,
        })
        .timestamp(DateTime::from_millis(millis))
        .set_dimensions(Some(datum.dimensions.iter().map(dimension).collect()));
    if let [(value, 1)] = datum.values[..] {
        return built.value(value).build();
    }
    for (value, count) in datum.values {
        built = built.values(value).counts(count as f64);
    }
    built.build()
}
