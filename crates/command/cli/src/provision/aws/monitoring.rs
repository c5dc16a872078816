//! The alarms and the dashboard that watch what a config describes.

use tollway_aws::Connect;
use tollway_notify::cloudwatch::CloudWatchConfig;

use super::alarm::{AlarmSpec, Comparison, MetricOf};
use super::dashboard::{DashboardSpec, Widget};
use super::resources::{Resource, Spec};
use crate::context::WholeConfig;

/// The 99th percentile of an acquisition should be below this, in milliseconds.
const LATENCY_MS: u32 = 50;

/// An acquisition that is slow for a moment is no alarm.
const SLOW_MINUTES: i32 = 5;

/// What metrics are about: one policy, and its limits.
struct Limits {
    policy: String,
    limits: Vec<String>,
}

/// A stage, as far as it is watched.
struct Stage {
    /// As in the names of its metrics: `Autotag`.
    name: String,
    queue: Option<String>,
    dead_letter_queue: Option<String>,
    dead_letters: u32,
}

/// Makes names and metrics of one config.
struct Monitoring<'a> {
    namespace: &'a str,
    dimensions: &'a [(String, String)],
    topic: Option<&'a str>,
}

/// Alarms and a dashboard, if the config has `[cloudwatch]`.
pub(super) fn of(config: &WholeConfig, others: &[Resource], topic: Option<&str>) -> Vec<Resource> {
    let Some(cloudwatch) = config.cloudwatch() else { return Vec::new() };
    let CloudWatchConfig { namespace, dimensions, .. } = cloudwatch;
    let monitoring = Monitoring { namespace, dimensions, topic };
    let (stages, limits) = (stages(config), limits(config));
    let mut alarms: Vec<AlarmSpec> = stages.iter().flat_map(|stage| monitoring.of_stage(stage)).collect();
    alarms.extend(monitoring.of_store());
    alarms.extend(limits.iter().flat_map(|limits| monitoring.of_limits(limits)));
    let tables = others.iter().filter(|other| matches!(other.spec, Spec::Table { .. }));
    let tables: Vec<&str> = tables.map(Resource::name).collect();
    let dashboard = monitoring.dashboard(&stages, &limits, &tables);
    let region = || others.iter().find_map(|other| other.connect.region.clone());
    let connect = Connect {
        region: cloudwatch.region.clone().or_else(region),
        endpoint: cloudwatch.endpoint.clone(),
        ..Connect::default()
    };
    let alarms = alarms.into_iter().map(Spec::Alarm).chain([Spec::Dashboard(dashboard)]);
    alarms.map(|spec| Resource { spec, connect: connect.clone() }).collect()
}

#[cfg(feature = "pipeline")]
fn stages(config: &WholeConfig) -> Vec<Stage> {
    let all = config.pipelines().iter().flat_map(|pipeline| {
        pipeline.stages.iter().map(|stage| {
            let (queue, dead_letter_queue) = super::pipelines::queue_names(pipeline, stage);
            let dead_letters = u32::try_from(pipeline.alarms.dead_letters).unwrap_or(u32::MAX);
            let name = tollway_notify::cloudwatch::pascal_case(stage.name.as_str());
            Stage { name, queue, dead_letter_queue, dead_letters }
        })
    });
    all.collect()
}

#[cfg(not(feature = "pipeline"))]
fn stages(_: &WholeConfig) -> Vec<Stage> {
    Vec::new()
}

/// All policies: a config has few.
fn limits(config: &WholeConfig) -> Vec<Limits> {
    let policies = config.limits().policies().iter().map(|policy| Limits {
        policy: policy.name().to_string(),
        limits: policy.limits().iter().map(|limit| limit.name().to_string()).collect(),
    });
    policies.collect()
}

impl Monitoring<'_> {
    fn own(&self, name: impl Into<String>, dimensions: &[(&str, &str)], statistic: &'static str) -> MetricOf {
        let own = dimensions.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let dimensions = self.dimensions.iter().cloned().chain(own).collect();
        MetricOf { namespace: self.namespace.to_owned(), name: name.into(), dimensions, statistic }
    }

    fn alarm(&self, name: &str, description: String, metric: MetricOf, threshold: u32) -> AlarmSpec {
        AlarmSpec {
            name: format!("{}-{name}", self.namespace),
            description,
            metric,
            comparison: Comparison::AtLeast,
            threshold,
            periods: 1,
            topic: self.topic.map(str::to_owned),
        }
    }

    fn of_stage(&self, stage: &Stage) -> [AlarmSpec; 2] {
        let name = &stage.name;
        [
            self.alarm(
                &format!("{name}DLQAlarm"),
                format!("{name} failures accumulate as dead letters: see `tollway pipeline dead list`"),
                self.dead_letters(stage),
                stage.dead_letters,
            ),
            self.alarm(
                &format!("{name}RateLimited"),
                format!("the vendor refused calls of {name} although they were within the limit"),
                self.own(format!("{name}RateLimited"), &[], "Sum"),
                1,
            ),
        ]
    }

    fn of_store(&self) -> [AlarmSpec; 2] {
        [
            self.alarm(
                "RateLimiterFallbackActivated",
                "the store does not answer, and takes are decided without it".to_owned(),
                self.own("RateLimiterFallbackActivated", &[], "Sum"),
                1,
            ),
            self.alarm(
                "RateLimiterStoreThrottled",
                "the store keeps throttling: raise its capacity, or lease units".to_owned(),
                self.own("RateLimiterStoreThrottled", &[], "Maximum"),
                1,
            ),
        ]
    }

    fn of_limits(&self, limits: &Limits) -> Vec<AlarmSpec> {
        let policy = limits.policy.as_str();
        let refused = self.alarm(
            &format!("RateLimiterVendorRefused-{policy}"),
            format!("a vendor refused a call that the policy {policy} had granted: see `tollway incidents`"),
            self.own("RateLimiterVendorRefused", &[("Policy", policy)], "Sum"),
            1,
        );
        // The limits of a policy are checked together, so one of them shows how long it took.
        let slow = limits.limits.first().map(|limit| AlarmSpec {
            comparison: Comparison::Above,
            periods: SLOW_MINUTES,
            ..self.alarm(
                &format!("RateLimiterAcquisitionLatency-{policy}"),
                format!(
                    "the 99th percentile of acquisitions of the policy {policy} is above {LATENCY_MS} ms"
                ),
                self.own("RateLimiterAcquisitionLatency", &[("Policy", policy), ("Limit", limit)], "p99"),
                LATENCY_MS,
            )
        });
        [refused].into_iter().chain(slow).collect()
    }

    fn queue_depth(&self, stage: &Stage) -> MetricOf {
        match &stage.queue {
            Some(queue) => messages(queue),
            None => self.own(format!("{}QueueDepth", stage.name), &[], "Maximum"),
        }
    }

    fn dead_letters(&self, stage: &Stage) -> MetricOf {
        match &stage.dead_letter_queue {
            Some(queue) => messages(queue),
            None => self.own(format!("{}DeadLetters", stage.name), &[], "Maximum"),
        }
    }

    fn dashboard(&self, stages: &[Stage], limits: &[Limits], tables: &[&str]) -> DashboardSpec {
        let mut widgets = Vec::new();
        let mut add = |title: String, metrics: Vec<MetricOf>| {
            if !metrics.is_empty() {
                widgets.push(Widget { title, metrics });
            }
        };
        let each = |what: &str| {
            stages
                .iter()
                .map(|stage| self.own(format!("{}{what}", stage.name), &[], "Sum"))
                .collect::<Vec<_>>()
        };
        stages
            .iter()
            .for_each(|stage| add(format!("{} Queue Depth", stage.name), vec![self.queue_depth(stage)]));
        stages
            .iter()
            .for_each(|stage| add(format!("{} DLQ Depth", stage.name), vec![self.dead_letters(stage)]));
        add("API calls per minute".to_owned(), each("Calls"));
        add(
            "Success and failure".to_owned(),
            [each("Success"), each("Failure"), each("RateLimited")].concat(),
        );
        let of_limits = |name: &str, statistic| {
            let each = limits
                .iter()
                .flat_map(|of| of.limits.iter().map(move |limit| (of.policy.as_str(), limit.as_str())));
            each.map(|(policy, limit)| self.own(name, &[("Policy", policy), ("Limit", limit)], statistic))
                .collect::<Vec<_>>()
        };
        add("Tokens available".to_owned(), of_limits("RateLimiterTokensAvailable", "Minimum"));
        let taken = [
            of_limits("RateLimiterTokensAcquired", "Sum"),
            of_limits("RateLimiterAcquisitionFailures", "Sum"),
        ];
        add("API Rate Limiting".to_owned(), taken.concat());
        let latency = [
            of_limits("RateLimiterAcquisitionLatency", "p50"),
            of_limits("RateLimiterAcquisitionLatency", "p99"),
        ];
        add("Acquisition latency".to_owned(), latency.concat());
        let activity = tables.iter().map(|table| MetricOf {
            namespace: "AWS/DynamoDB".to_owned(),
            name: "ConsumedWriteCapacityUnits".to_owned(),
            dimensions: vec![("TableName".to_owned(), (*table).to_owned())],
            statistic: "Sum",
        });
        add("Rate Limit Table Activity".to_owned(), activity.collect());
        DashboardSpec { name: dashboard_name(self.namespace), widgets }
    }
}

fn messages(queue: &str) -> MetricOf {
    MetricOf {
        namespace: "AWS/SQS".to_owned(),
        name: "ApproximateNumberOfMessagesVisible".to_owned(),
        dimensions: vec![("QueueName".to_owned(), queue.to_owned())],
        statistic: "Maximum",
    }
}

/// A dashboard's name has letters, digits, `-` and `_`.
fn dashboard_name(namespace: &str) -> String {
    let allowed =
        |letter: char| if letter.is_ascii_alphanumeric() || "-_".contains(letter) { letter } else { '-' };
    namespace.chars().map(allowed).collect()
}
