//! Creates the table if the URL says `create=yes`.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableStatus,
    TimeToLiveSpecification,
};
use tollway_core::{Fault, Retry, StoreError};

use crate::error::{Kind, meaning};
use crate::item::{KEY, TTL};

/// How often a new table is looked at until it can be used: AWS takes some ten seconds.
const LOOKS_MAX: u32 = 120;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Makes the table if it is not there, pays by request, and lets DynamoDB delete what is old.
pub(crate) async fn create_if_missing(client: &Client, table: &str) -> Result<(), StoreError> {
    if is_active(client, table).await?.is_none() {
        create(client, table).await?;
    }
    for look in 0..LOOKS_MAX {
        if is_active(client, table).await? == Some(true) {
            return expire_old_items(client, table).await;
        }
        if look + 1 < LOOKS_MAX {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    let message = format!("DynamoDB: the table {table} was made, and cannot be used yet");
    Err(StoreError { fault: Fault::Store, retry: Retry::Safe, message })
}

/// Whether the table can be used; none if it is not there.
async fn is_active(client: &Client, table: &str) -> Result<Option<bool>, StoreError> {
    match client.describe_table().table_name(table).send().await {
        Ok(described) => {
            let status = described.table.and_then(|table| table.table_status);
            Ok(Some(status == Some(TableStatus::Active)))
        }
        Err(error) if error.as_service_error().is_some_and(|said| said.is_resource_not_found_exception()) => {
            Ok(None)
        }
        Err(error) => Err(meaning(&error, Kind::Read)),
    }
}

async fn create(client: &Client, table: &str) -> Result<(), StoreError> {
    let key = KeySchemaElement::builder().attribute_name(KEY).key_type(KeyType::Hash).build();
    let text = AttributeDefinition::builder().attribute_name(KEY).attribute_type(ScalarAttributeType::S);
    let (Ok(key), Ok(text)) = (key, text.build()) else { return Ok(()) };
    let request = client.create_table().table_name(table).key_schema(key).attribute_definitions(text);
    match request.billing_mode(BillingMode::PayPerRequest).send().await {
        Ok(_) => Ok(()),
        // Another process was faster.
        Err(error) if error.as_service_error().is_some_and(|said| said.is_resource_in_use_exception()) => {
            Ok(())
        }
        Err(error) => Err(meaning(&error, Kind::Read)),
    }
}

async fn expire_old_items(client: &Client, table: &str) -> Result<(), StoreError> {
    let described = client.describe_time_to_live().table_name(table).send().await;
    let described = described.map_err(|error| meaning(&error, Kind::Read))?.time_to_live_description;
    if described.is_some_and(|ttl| ttl.attribute_name.as_deref() == Some(TTL)) {
        return Ok(());
    }
    let Ok(ttl) = TimeToLiveSpecification::builder().attribute_name(TTL).enabled(true).build() else {
        return Ok(());
    };
    let request = client.update_time_to_live().table_name(table).time_to_live_specification(ttl);
    match request.send().await {
        Ok(_) => Ok(()),
        // Another process was faster.
        Err(error) if error.code() == Some("ValidationException") => Ok(()),
        Err(error) => Err(meaning(&error, Kind::Read)),
    }
}
