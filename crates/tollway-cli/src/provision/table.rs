//! A table of DynamoDB: its key, and the attribute by which old items expire.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableDescription,
    TableStatus, TimeToLiveSpecification, TimeToLiveStatus,
};
use tollway_aws::{Connect, connect};

use super::error::{ProvisionError, failed};

/// The attribute by which items expire, in every table of Tollway.
const TTL: &str = "ttl";

/// How often a new table is looked at until it can be used: AWS takes some ten seconds.
const LOOKS_MAX: u32 = 120;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A table that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableWanted {
    /// Its name.
    pub(crate) name: String,
    /// The attributes of its key with their types (`S`, `N`), the partition key first.
    pub(crate) key: Vec<(String, String)>,
}

/// What is there of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableFound {
    /// Nothing.
    Missing,
    /// A table with another key, which cannot be changed.
    OtherKey(Vec<(String, String)>),
    /// The table, but its items do not expire, or by another attribute.
    WithoutTtl {
        /// The attribute by which they expire now.
        other: Option<String>,
    },
    /// All of it.
    Ready,
}

/// The tables of an account.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    client: Client,
}

impl Tables {
    /// Those over this connection.
    pub(crate) async fn new(to: &Connect) -> Self {
        Self { client: Client::new(&connect(to).await) }
    }

    /// What is there of a table.
    pub(crate) async fn look(&self, wanted: &TableWanted) -> Result<TableFound, ProvisionError> {
        let Some(table) = self.describe(&wanted.name).await? else { return Ok(TableFound::Missing) };
        let key = key_of(&table);
        if key != wanted.key {
            return Ok(TableFound::OtherKey(key));
        }
        let ttl = self.client.describe_time_to_live().table_name(&wanted.name).send().await;
        let ttl = ttl.map_err(|error| failed(&format!("looking at the table {}", wanted.name), &error))?;
        let ttl = ttl.time_to_live_description;
        let on = [Some(TimeToLiveStatus::Enabled), Some(TimeToLiveStatus::Enabling)];
        let by = ttl.filter(|ttl| on.contains(&ttl.time_to_live_status)).and_then(|ttl| ttl.attribute_name);
        Ok(match by {
            Some(attribute) if attribute == TTL => TableFound::Ready,
            other => TableFound::WithoutTtl { other },
        })
    }

    /// Makes what is missing of a table, and waits until it can be used.
    pub(crate) async fn make(&self, wanted: &TableWanted, found: &TableFound) -> Result<(), ProvisionError> {
        let name = &wanted.name;
        match found {
            TableFound::Ready => Ok(()),
            TableFound::OtherKey(key) => Err(other_key(wanted, key)),
            TableFound::WithoutTtl { other: Some(other) } => Err(ProvisionError {
                message: format!("the items of the table {name} vanish by `{other}`, not by `{TTL}`"),
                advice: format!("turn that off, or name another table than {name}"),
            }),
            TableFound::WithoutTtl { other: None } => self.turn_ttl_on(name).await,
            TableFound::Missing => {
                self.create(wanted).await?;
                self.wait_until_active(name).await?;
                self.turn_ttl_on(name).await
            }
        }
    }

    async fn describe(&self, name: &str) -> Result<Option<TableDescription>, ProvisionError> {
        match self.client.describe_table().table_name(name).send().await {
            Ok(described) => Ok(described.table),
            Err(error)
                if error.as_service_error().is_some_and(|said| said.is_resource_not_found_exception()) =>
            {
                Ok(None)
            }
            Err(error) => Err(failed(&format!("looking at the table {name}"), &error)),
        }
    }

    async fn create(&self, wanted: &TableWanted) -> Result<(), ProvisionError> {
        let mut request = self.client.create_table().table_name(&wanted.name);
        for (index, (attribute, kind)) in wanted.key.iter().enumerate() {
            let place = if index == 0 { KeyType::Hash } else { KeyType::Range };
            let key = KeySchemaElement::builder().attribute_name(attribute).key_type(place).build();
            let kind = ScalarAttributeType::from(kind.as_str());
            let definition =
                AttributeDefinition::builder().attribute_name(attribute).attribute_type(kind).build();
            if let (Ok(key), Ok(definition)) = (key, definition) {
                request = request.key_schema(key).attribute_definitions(definition);
            }
        }
        match request.billing_mode(BillingMode::PayPerRequest).send().await {
            Ok(_) => Ok(()),
            // Another process made it; whether it has the right key shows next time.
            Err(error)
                if error.as_service_error().is_some_and(|said| said.is_resource_in_use_exception()) =>
            {
                Ok(())
            }
            Err(error) => Err(failed(&format!("making the table {}", wanted.name), &error)),
        }
    }

    async fn wait_until_active(&self, name: &str) -> Result<(), ProvisionError> {
        for _ in 0..LOOKS_MAX {
            let status = self.describe(name).await?.and_then(|table| table.table_status);
            if status == Some(TableStatus::Active) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let message = format!("the table {name} was made, and cannot be used after a minute");
        Err(ProvisionError { message, advice: "look at it in the console, then try again".to_owned() })
    }

    async fn turn_ttl_on(&self, name: &str) -> Result<(), ProvisionError> {
        let Ok(ttl) = TimeToLiveSpecification::builder().attribute_name(TTL).enabled(true).build() else {
            return Ok(());
        };
        let request = self.client.update_time_to_live().table_name(name).time_to_live_specification(ttl);
        let turned = request.send().await;
        turned.map(drop).map_err(|error| failed(&format!("letting old items of {name} vanish"), &error))
    }
}

fn key_of(table: &TableDescription) -> Vec<(String, String)> {
    let mut key: Vec<_> = table.key_schema().iter().collect();
    key.sort_by_key(|element| element.key_type != KeyType::Hash);
    let kind = |name: &str| {
        let mut definitions = table.attribute_definitions().iter();
        definitions
            .find(|definition| definition.attribute_name == name)
            .map(|found| found.attribute_type.as_str())
    };
    key.iter()
        .map(|element| {
            let name = element.attribute_name.clone();
            let kind = kind(&name).unwrap_or_default().to_owned();
            (name, kind)
        })
        .collect()
}

fn other_key(wanted: &TableWanted, found: &[(String, String)]) -> ProvisionError {
    let (name, wants, has) = (&wanted.name, show_key(&wanted.key), show_key(found));
    ProvisionError {
        message: format!(
            "the table {name} has the key {has}, and {wants} is needed; a key cannot be changed"
        ),
        advice: format!("name another table than {name} in the store's URL, or delete it if nobody needs it"),
    }
}

/// A key as text: `api_type (S), minute (N)`.
fn show_key(key: &[(String, String)]) -> String {
    let shown: Vec<String> = key.iter().map(|(name, kind)| format!("{name} ({kind})")).collect();
    shown.join(", ")
}
