//! Creates the table if the URL says `create=yes`.

use std::time::Duration;

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableStatus,
    TimeToLiveSpecification,
};
use tollway_core::{Fault, Retry, StoreError};

use crate::connection::Connection;
use crate::error::Kind;
use crate::item::{KEY, TTL};

/// How often a new table is looked at until it can be used: AWS takes some ten seconds.
const LOOKS_MAX: u32 = 120;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Makes the table if it is not there, pays by request, and lets DynamoDB delete what is old.
pub(crate) async fn create_if_missing(connection: &Connection, table: &str) -> Result<(), StoreError> {
    if is_active(connection, table).await?.is_none() {
        create(connection, table).await?;
    }
    for look in 0..LOOKS_MAX {
        if is_active(connection, table).await? == Some(true) {
            return expire_old_items(connection, table).await;
        }
        if look + 1 < LOOKS_MAX {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    let message = format!("{}: it was made, and cannot be used yet", connection.service);
    Err(StoreError { fault: Fault::Store, retry: Retry::Safe, message })
}

/// Whether the table can be used; none if it is not there.
async fn is_active(connection: &Connection, table: &str) -> Result<Option<bool>, StoreError> {
    match connection.client.describe_table().table_name(table).send().await {
        Ok(described) => {
            let status = described.table.and_then(|table| table.table_status);
            Ok(Some(status == Some(TableStatus::Active)))
        }
        Err(error) if error.as_service_error().is_some_and(|said| said.is_resource_not_found_exception()) => {
            Ok(None)
        }
        Err(error) => Err(connection.failed(&error, Kind::Read)),
    }
}

async fn create(connection: &Connection, table: &str) -> Result<(), StoreError> {
    let key = KeySchemaElement::builder().attribute_name(KEY).key_type(KeyType::Hash).build();
    let text = AttributeDefinition::builder().attribute_name(KEY).attribute_type(ScalarAttributeType::S);
    let (Ok(key), Ok(text)) = (key, text.build()) else { return Ok(()) };
    let request =
        connection.client.create_table().table_name(table).key_schema(key).attribute_definitions(text);
    match request.billing_mode(BillingMode::PayPerRequest).send().await {
        Ok(_) => Ok(()),
        // Another process was faster.
        Err(error) if error.as_service_error().is_some_and(|said| said.is_resource_in_use_exception()) => {
            Ok(())
        }
        Err(error) => Err(connection.failed(&error, Kind::Read)),
    }
}

async fn expire_old_items(connection: &Connection, table: &str) -> Result<(), StoreError> {
    let described = connection.client.describe_time_to_live().table_name(table).send().await;
    let described =
        described.map_err(|error| connection.failed(&error, Kind::Read))?.time_to_live_description;
    if described.is_some_and(|ttl| ttl.attribute_name.as_deref() == Some(TTL)) {
        return Ok(());
    }
    let Ok(ttl) = TimeToLiveSpecification::builder().attribute_name(TTL).enabled(true).build() else {
        return Ok(());
    };
    let request = connection.client.update_time_to_live().table_name(table).time_to_live_specification(ttl);
    match request.send().await {
        Ok(_) => Ok(()),
        // Another process was faster.
        Err(error) if error.code() == Some("ValidationException") => Ok(()),
        Err(error) => Err(connection.failed(&error, Kind::Read)),
    }
}
