//! The AWS resources that a config needs.

use tollway::source::PolicySource;
use tollway::{Config, Policy, StoreUrl};
use tollway_aws::Connect;
use tollway_dynamodb::minute::Layout;

use super::parameter::ParameterSpec;
use super::table::TableSpec;

/// The key of a table of accounts.
const ACCOUNT_KEY: (&str, &str) = ("key", "S");

/// A needed resource and its use, which decides the permissions of roles.
#[derive(Debug)]
pub(super) enum Resource {
    Table { table: TableSpec, connect: Connect, layout: Option<Layout> },
    Parameter { parameter: ParameterSpec, use_: Use },
}

/// How a parameter is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// By its name.
    Alone,
    /// With others, by this path.
    Below(String),
}

/// All resources of a config, the store's first.
pub(super) fn of(config: &Config, store: Option<&StoreUrl>) -> Vec<Resource> {
    let table = store.and_then(StoreUrl::dynamodb).map(|options| Resource::Table {
        table: TableSpec { name: options.table().to_owned(), key: key(options.layout()) },
        connect: options.connect().clone(),
        layout: options.layout(),
    });
    let parameters = config.sources().iter().flat_map(|source| parameters(config, source));
    table.into_iter().chain(parameters).collect()
}

fn key(layout: Option<Layout>) -> Vec<(String, String)> {
    let key = layout.map_or(&[ACCOUNT_KEY][..], Layout::key);
    key.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect()
}

/// One parameter per limit of the policy.
fn parameters(config: &Config, source: &PolicySource) -> Vec<Resource> {
    let Some(policy) = config.policy(source.policy().as_str()) else { return Vec::new() };
    let address = source.url().parameter();
    let each = policy.limits().iter().map(|limit| {
        let (name, use_) = match policy.limits() {
            [_] => (address.name.clone(), Use::Alone),
            _ => (address.below(limit.name().as_str()), Use::Below(address.name.clone())),
        };
        let parameter = ParameterSpec {
            address: tollway_aws::ParameterAddress { name, connect: address.connect.clone() },
            value: limit.amount().to_string(),
            description: description(policy, limit),
        };
        Resource::Parameter { parameter, use_ }
    });
    each.collect()
}

fn description(policy: &Policy, limit: &tollway::Limit) -> String {
    format!("the amount of the limit {} of the policy {} in Tollway", limit.name(), policy.name())
}
