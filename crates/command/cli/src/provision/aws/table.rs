//! A DynamoDB table: its key and its TTL attribute.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableDescription,
    TableStatus, Tag, TimeToLiveSpecification, TimeToLiveStatus,
};
use serde_json::{Value, json};

use super::account::Account;
use super::error::ProvisionError;
use super::made_by::{TAG, TAG_VALUE, has_tag};
use super::report::State;

/// The attribute by which items expire, in every table of Tollway.
const TTL: &str = "ttl";

/// How often a new table is polled until it is active: AWS takes some ten seconds.
const POLLS_MAX: u32 = 120;

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A needed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableSpec {
    /// Its name.
    pub(crate) name: String,
    /// The attributes of its key with their types (`S`, `N`), the partition key first.
    pub(crate) key: Vec<(String, String)>,
}

impl TableSpec {
    pub(super) fn details(&self) -> String {
        format!("key {}; old items expire by `{TTL}`", show_key(&self.key))
    }

    /// Its properties in a template.
    pub(super) fn properties(&self) -> Value {
        let places = ["HASH", "RANGE"];
        let definition =
            |(name, kind): &(String, String)| json!({ "AttributeName": name, "AttributeType": kind });
        let schema = self.key.iter().zip(places);
        let schema = schema.map(|((name, _), place)| json!({ "AttributeName": name, "KeyType": place }));
        json!({
            "TableName": self.name,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": self.key.iter().map(definition).collect::<Vec<Value>>(),
            "KeySchema": schema.collect::<Vec<Value>>(),
            "TimeToLiveSpecification": { "AttributeName": TTL, "Enabled": true },
        })
    }

    pub(super) async fn look(&self, account: &Account) -> Result<State, ProvisionError> {
        let found = Tables::of(account).look(self).await?;
        Ok(match self.refusal(&found) {
            Some(refusal) => State::Refused(refusal),
            None if found == TableFound::Missing => State::Missing,
            None if found == TableFound::Ready => State::Ready,
            None => State::Incomplete("TTL is off".to_owned()),
        })
    }

    /// Creates what is missing of it.
    pub(super) async fn make(&self, account: &Account) -> Result<(), ProvisionError> {
        let tables = Tables::of(account);
        let found = tables.look(self).await?;
        tables.make(self, &found).await
    }

    pub(super) async fn is_ours(&self, account: &Account) -> Result<bool, ProvisionError> {
        let tables = Tables::of(account);
        let arn = tables.describe(&self.name).await?.and_then(|table| table.table_arn);
        let Some(arn) = arn else { return Ok(false) };
        let tags = tables.client.list_tags_of_resource().resource_arn(arn).send().await;
        let what = format!("reading the tags of the table {}", self.name);
        let tags = tags.map_err(|error| account.failed(&what, &error))?;
        Ok(has_tag(tags.tags().iter().map(|tag| (tag.key(), tag.value()))))
    }

    pub(super) async fn remove(&self, account: &Account) -> Result<(), ProvisionError> {
        let removed = Tables::of(account).client.delete_table().table_name(&self.name).send().await;
        removed
            .map(drop)
            .map_err(|error| account.failed(&format!("deleting the table {}", self.name), &error))
    }

    /// Why a table that exists cannot be used.
    fn refusal(&self, found: &TableFound) -> Option<ProvisionError> {
        let name = &self.name;
        match found {
            TableFound::OtherKey(key) => Some(other_key(self, key)),
            TableFound::WithoutTtl { other: Some(other) } => Some(ProvisionError {
                message: format!("the TTL attribute of the table {name} is `{other}`, not `{TTL}`"),
                advice: format!("turn its TTL off, or use another table than {name}"),
            }),
            TableFound::Missing | TableFound::Ready | TableFound::WithoutTtl { other: None } => None,
        }
    }
}

/// The state of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableFound {
    /// It does not exist.
    Missing,
    /// A table with another key, which cannot be changed.
    OtherKey(Vec<(String, String)>),
    /// The table exists, but TTL is off or uses another attribute.
    WithoutTtl {
        /// The TTL attribute in use.
        other: Option<String>,
    },
    /// It exists with TTL.
    Ready,
}

/// The tables of an account.
#[derive(Clone, Debug)]
pub(crate) struct Tables<'a> {
    client: Client,
    account: &'a Account,
}

impl<'a> Tables<'a> {
    /// All tables that it reaches.
    pub(crate) fn of(account: &'a Account) -> Self {
        Self { client: Client::new(&account.config), account }
    }

    /// Looks up the state of a table.
    pub(crate) async fn look(&self, wanted: &TableSpec) -> Result<TableFound, ProvisionError> {
        let Some(table) = self.describe(&wanted.name).await? else { return Ok(TableFound::Missing) };
        let key = key_of(&table);
        if key != wanted.key {
            return Ok(TableFound::OtherKey(key));
        }
        let ttl = self.client.describe_time_to_live().table_name(&wanted.name).send().await;
        let ttl =
            ttl.map_err(|error| self.account.failed(&format!("reading the table {}", wanted.name), &error))?;
        let ttl = ttl.time_to_live_description;
        let on = [Some(TimeToLiveStatus::Enabled), Some(TimeToLiveStatus::Enabling)];
        let by = ttl.filter(|ttl| on.contains(&ttl.time_to_live_status)).and_then(|ttl| ttl.attribute_name);
        Ok(match by {
            Some(attribute) if attribute == TTL => TableFound::Ready,
            other => TableFound::WithoutTtl { other },
        })
    }

    /// Creates what is missing of a table, and waits until it is active.
    pub(crate) async fn make(&self, wanted: &TableSpec, found: &TableFound) -> Result<(), ProvisionError> {
        if let Some(refusal) = wanted.refusal(found) {
            return Err(refusal);
        }
        let name = &wanted.name;
        match found {
            TableFound::Ready | TableFound::OtherKey(_) => Ok(()),
            TableFound::WithoutTtl { .. } => self.turn_ttl_on(name).await,
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
            Err(error) => Err(self.account.failed(&format!("reading the table {name}"), &error)),
        }
    }

    async fn create(&self, wanted: &TableSpec) -> Result<(), ProvisionError> {
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
        let tag = Tag::builder().key(TAG).value(TAG_VALUE).build().ok();
        let request = request.billing_mode(BillingMode::PayPerRequest).set_tags(tag.map(|tag| vec![tag]));
        match request.send().await {
            Ok(_) => Ok(()),
            // Another process created it; the next run checks its key.
            Err(error)
                if error.as_service_error().is_some_and(|said| said.is_resource_in_use_exception()) =>
            {
                Ok(())
            }
            Err(error) => Err(self.account.failed(&format!("creating the table {}", wanted.name), &error)),
        }
    }

    async fn wait_until_active(&self, name: &str) -> Result<(), ProvisionError> {
        for _ in 0..POLLS_MAX {
            let status = self.describe(name).await?.and_then(|table| table.table_status);
            if status == Some(TableStatus::Active) {
                return Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let message = format!("the table {name} was created, but is not active after a minute");
        Err(ProvisionError { message, advice: "check it in the AWS console, then try again".to_owned() })
    }

    async fn turn_ttl_on(&self, name: &str) -> Result<(), ProvisionError> {
        let Ok(ttl) = TimeToLiveSpecification::builder().attribute_name(TTL).enabled(true).build() else {
            return Ok(());
        };
        let request = self.client.update_time_to_live().table_name(name).time_to_live_specification(ttl);
        let turned = request.send().await;
        turned.map(drop).map_err(|error| self.account.failed(&format!("turning on TTL of {name}"), &error))
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

fn other_key(wanted: &TableSpec, found: &[(String, String)]) -> ProvisionError {
    let (name, wants, has) = (&wanted.name, show_key(&wanted.key), show_key(found));
    ProvisionError {
        message: format!("the table {name} has the key {has}, but needs {wants}; a key cannot be changed"),
        advice: format!("use another table in the store's URL, or delete {name} if it is unused"),
    }
}

/// A key as text: `api_type (S), minute (N)`.
fn show_key(key: &[(String, String)]) -> String {
    let shown: Vec<String> = key.iter().map(|(name, kind)| format!("{name} ({kind})")).collect();
    shown.join(", ")
}
