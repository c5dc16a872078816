//! What a config needs on AWS.

use tollway::source::PolicySource;
use tollway::{Config, Policy, StoreUrl};
use tollway_aws::Connect;
use tollway_dynamodb::minute::Layout;

use super::parameter::ParameterWanted;
use super::table::TableWanted;

/// The key of a table of lines.
const KEY_OF_LINES: (&str, &str) = ("key", "S");

/// Something that is needed, and how it is used: that decides what roles must be allowed.
#[derive(Debug)]
pub(super) enum Wanted {
    Table { table: TableWanted, connect: Connect, layout: Option<Layout> },
    Parameter { parameter: ParameterWanted, use_: Use },
}

/// How a parameter is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// By its name.
    Alone,
    /// With others, by this path.
    Below(String),
}

/// All that a config needs, the store's first.
pub(super) fn of(config: &Config, store: Option<&StoreUrl>) -> Vec<Wanted> {
    let table = store.and_then(StoreUrl::dynamodb).map(|options| Wanted::Table {
        table: TableWanted { name: options.table().to_owned(), key: key(options.layout()) },
        connect: options.connect().clone(),
        layout: options.layout(),
    });
    let parameters = config.sources().iter().flat_map(|source| parameters(config, source));
    table.into_iter().chain(parameters).collect()
}

fn key(layout: Option<Layout>) -> Vec<(String, String)> {
    let key = layout.map_or(&[KEY_OF_LINES][..], Layout::key);
    key.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect()
}

/// One for the only limit of a policy, or one for each of several.
fn parameters(config: &Config, source: &PolicySource) -> Vec<Wanted> {
    let Some(policy) = config.policy(source.policy().as_str()) else { return Vec::new() };
    let address = source.url().parameter();
    let each = policy.limits().iter().map(|limit| {
        let (name, use_) = match policy.limits() {
            [_] => (address.name.clone(), Use::Alone),
            _ => (address.below(limit.name().as_str()), Use::Below(address.name.clone())),
        };
        let parameter = ParameterWanted {
            address: tollway_aws::ParameterAddress { name, connect: address.connect.clone() },
            value: limit.amount().to_string(),
            description: description(policy, limit),
        };
        Wanted::Parameter { parameter, use_ }
    });
    each.collect()
}

fn description(policy: &Policy, limit: &tollway::Limit) -> String {
    format!("the amount of the limit {} of the policy {} in Tollway", limit.name(), policy.name())
}
