//! What `doctor` asks of AWS: whether queues, the ledger, parameters and the topic are as the config needs them.

use std::collections::BTreeSet;

use tollway::StoreUrl;

use super::MAX_RECEIVES;
use super::error::ProvisionError;
use super::report::State;
use super::resources::{self, Resource, Spec, TableUse};
use crate::context::WholeConfig;

/// A resource that is not as needed: `queue adobe-autotag-queue`.
#[derive(Debug)]
pub(crate) struct Surveyed {
    pub(crate) name: String,
    pub(crate) condition: Condition,
    /// It is the ledger of a pipeline.
    pub(crate) is_ledger: bool,
}

#[derive(Debug)]
pub(crate) enum Condition {
    Ready,
    Missing,
    /// It works, but is not as `provision aws --apply` would have it.
    Different(String),
    /// It cannot be used.
    Unusable(ProvisionError),
    /// AWS did not answer, or refused.
    Unknown(ProvisionError),
}

/// Looks at each of them. Ends with the first that AWS did not answer for: the others would say the same.
pub(crate) async fn survey(config: &WholeConfig, store: Option<&StoreUrl>) -> Vec<Surveyed> {
    let Ok(wanted) = resources::of(config, store, MAX_RECEIVES) else { return Vec::new() };
    let made_at_first_use = made_at_first_use(config);
    let mut surveyed = Vec::new();
    for resource in wanted.resources.iter().filter(|resource| is_surveyed(resource)) {
        let condition = match resource.look().await {
            Ok(State::Missing) if made_at_first_use.contains(resource.name()) => Condition::Ready,
            Ok(State::Missing) => Condition::Missing,
            Ok(State::Incomplete(why)) => Condition::Different(why),
            Ok(State::Refused(error)) => Condition::Unusable(error),
            Ok(_) => Condition::Ready,
            Err(error) => Condition::Unknown(error),
        };
        let is_unknown = matches!(condition, Condition::Unknown(_));
        let is_ledger = matches!(resource.spec, Spec::Table { use_: TableUse::Ledger, .. });
        let name = format!("{} {}", resource.kind(), resource.name());
        surveyed.push(Surveyed { name, condition, is_ledger });
        if is_unknown {
            break;
        }
    }
    surveyed
}

/// Queues and ledgers of engines with `create=yes`.
#[cfg(feature = "pipeline")]
fn made_at_first_use(config: &WholeConfig) -> BTreeSet<String> {
    use super::pipelines;

    let creates = config
        .pipelines()
        .iter()
        .filter(|pipeline| pipelines::sqs_of(pipeline).is_some_and(tollway_pipeline::SqsUrl::creates));
    let resources = creates.filter_map(|pipeline| pipelines::of(pipeline, MAX_RECEIVES).ok()).flatten();
    resources.map(|resource| resource.name().to_owned()).collect()
}

#[cfg(not(feature = "pipeline"))]
fn made_at_first_use(_: &WholeConfig) -> BTreeSet<String> {
    BTreeSet::new()
}

/// The store's table has checks of its own, and alarms and dashboards keep no limit from being enforced.
fn is_surveyed(resource: &Resource) -> bool {
    matches!(
        resource.spec,
        Spec::Table { use_: TableUse::Ledger, .. } | Spec::Parameter { .. } | Spec::Queue(_) | Spec::Topic(_)
    )
}
