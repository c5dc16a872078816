//! The AWS resources that a config needs: the one description that plan, apply, destroy, template and permissions use.

use std::collections::BTreeMap;

use tollway::config::TopicConfig;
use tollway::source::PolicySource;
use tollway::{Config, Policy, StoreUrl};
use tollway_aws::Connect;
use tollway_dynamodb::minute::Layout;
use tollway_notify::cloudwatch::Delivery;

use super::alarm::AlarmSpec;
use super::dashboard::DashboardSpec;
use super::monitoring;
use super::parameter::ParameterSpec;
use super::queue::QueueSpec;
use super::table::TableSpec;
use super::topic::TopicSpec;
use crate::context::WholeConfig;
use crate::failure::{Exit, Failure};

/// The key of a table of accounts.
const ACCOUNT_KEY: [(&str, &str); 1] = [("key", "S")];

/// Everything that a config needs of AWS.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// In the order in which they are made.
    pub(super) resources: Vec<Resource>,
    /// The namespace that processes send figures to by themselves.
    pub(super) namespace: Option<String>,
}

/// A needed resource and its use, which decides the permissions of roles.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) spec: Spec,
    /// The way there.
    pub(super) connect: Connect,
}

#[derive(Debug)]
pub(super) enum Spec {
    Table { table: TableSpec, use_: TableUse },
    Parameter { parameter: ParameterSpec, use_: ParameterUse },
    Queue(QueueSpec),
    Topic(TopicSpec),
    Alarm(AlarmSpec),
    Dashboard(DashboardSpec),
}

/// What a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableUse {
    /// Usage, in our own layout.
    Accounts,
    /// Usage, in the layout of tasks that run already.
    Minutes,
    /// The jobs of a pipeline on SQS.
    #[cfg_attr(not(feature = "pipeline"), expect(dead_code, reason = "only pipelines have one"))]
    Ledger,
}

/// How a parameter is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ParameterUse {
    /// By its name.
    Alone,
    /// With others, by this path.
    Below(String),
}

impl Resource {
    pub(super) fn kind(&self) -> &'static str {
        match &self.spec {
            Spec::Table { .. } => "table",
            Spec::Parameter { .. } => "parameter",
            Spec::Queue(_) => "queue",
            Spec::Topic(_) => "topic",
            Spec::Alarm(_) => "alarm",
            Spec::Dashboard(_) => "dashboard",
        }
    }

    pub(super) fn name(&self) -> &str {
        match &self.spec {
            Spec::Table { table, .. } => &table.name,
            Spec::Parameter { parameter, .. } => &parameter.address.name,
            Spec::Queue(queue) => &queue.name,
            Spec::Topic(topic) => topic.name(),
            Spec::Alarm(alarm) => &alarm.name,
            Spec::Dashboard(dashboard) => &dashboard.name,
        }
    }

    /// What it is like, in a few words.
    pub(super) fn details(&self) -> String {
        match &self.spec {
            Spec::Table { table, .. } => table.details(),
            Spec::Parameter { parameter, .. } => format!("value {} from the config", parameter.value),
            Spec::Queue(queue) => queue.details(),
            Spec::Topic(topic) => topic.details(),
            Spec::Alarm(alarm) => alarm.details(),
            Spec::Dashboard(dashboard) => dashboard.details(),
        }
    }
}

/// What the config needs, the store's first. `max_receives` is how often SQS delivers a message before it gives up.
pub(super) fn of(
    config: &WholeConfig,
    store: Option<&StoreUrl>,
    max_receives: u32,
) -> Result<Wanted, Failure> {
    let limits = config.limits();
    let table = store.and_then(StoreUrl::dynamodb).map(|options| Resource {
        spec: Spec::Table {
            table: TableSpec { name: options.table().to_owned(), key: key(options.layout()) },
            use_: if options.layout().is_some() { TableUse::Minutes } else { TableUse::Accounts },
        },
        connect: options.connect().clone(),
    });
    let parameters = limits.sources().iter().flat_map(|source| parameters(limits, source));
    let mut resources: Vec<Resource> = table.into_iter().chain(parameters).collect();
    #[cfg(feature = "pipeline")]
    for pipeline in config.pipelines() {
        let more = super::pipelines::of(pipeline, max_receives);
        resources.extend(more.map_err(|message| Failure::new(Exit::CONFIG, message))?);
    }
    #[cfg(not(feature = "pipeline"))]
    let _ = max_receives;
    let topic = limits.incidents().topic();
    let monitoring = monitoring::of(config, &resources, topic.map(TopicConfig::arn));
    // Before the alarms, which tell it.
    resources.extend(topic.map(|topic| Resource {
        spec: Spec::Topic(TopicSpec { arn: topic.arn().to_owned() }),
        connect: Connect { region: Some(topic.region().to_owned()), ..Connect::default() },
    }));
    resources.extend(monitoring);
    let resources = without_repeats(resources);
    let calls =
        |cloudwatch: &&tollway_notify::cloudwatch::CloudWatchConfig| cloudwatch.delivery == Delivery::Put;
    let namespace = config.cloudwatch().filter(calls).map(|cloudwatch| cloudwatch.namespace.clone());
    if resources.is_empty() {
        return Err(nothing());
    }
    Ok(Wanted { resources, namespace })
}

/// Two stages or policies may share one.
fn without_repeats(resources: Vec<Resource>) -> Vec<Resource> {
    let mut known = BTreeMap::new();
    let is_new = |resource: &Resource| {
        known
            .insert((resource.kind(), resource.name().to_owned(), resource.connect.region.clone()), ())
            .is_none()
    };
    let mut is_new = is_new;
    resources.into_iter().filter(|resource| is_new(resource)).collect()
}

fn nothing() -> Failure {
    Failure::new(Exit::CONFIG, "the config needs no AWS resources").advise(
        "name a table, as in `url = \"dynamodb://tollway\"` below [store], a parameter, as in \
         `source = \"ssm:/pdf-processing/adobe-api-rpm\"` below a policy, or the `queue` of a stage",
    )
}

fn key(layout: Option<Layout>) -> Vec<(String, String)> {
    let key = layout.map_or(&ACCOUNT_KEY[..], Layout::key);
    key.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect()
}

/// One parameter per limit of the policy.
fn parameters(config: &Config, source: &PolicySource) -> Vec<Resource> {
    let Some(policy) = config.policy(source.policy().as_str()) else { return Vec::new() };
    let address = source.url().parameter();
    let each = policy.limits().iter().map(|limit| {
        let (name, use_) = match policy.limits() {
            [_] => (address.name.clone(), ParameterUse::Alone),
            _ => (address.below(limit.name().as_str()), ParameterUse::Below(address.name.clone())),
        };
        let parameter = ParameterSpec {
            address: tollway_aws::ParameterAddress { name, connect: address.connect.clone() },
            value: limit.amount().to_string(),
            description: description(policy, limit),
        };
        Resource { spec: Spec::Parameter { parameter, use_ }, connect: address.connect.clone() }
    });
    each.collect()
}

fn description(policy: &Policy, limit: &tollway::Limit) -> String {
    format!("the amount of the limit {} of the policy {} in Tollway", limit.name(), policy.name())
}
