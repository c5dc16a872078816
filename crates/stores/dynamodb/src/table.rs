//! The requests to DynamoDB: read an item, write one on a condition, write several together.

use std::sync::Arc;

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::error::TransactionCanceledException;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tollway_aws::ClockCheck;
use tollway_core::{Fault, Retry, StoreError};

use crate::connection::Connection;
use crate::counters::{Counters, count};
use crate::create::create_if_missing;
use crate::error::{Kind, is_throttle, unreadable};
use crate::item::{Attributes, KEY, VERSION};
use crate::options::DynamoOptions;

/// Names in conditions: `key` is a word of DynamoDB's own.
const NAME_OF_KEY: &str = "#key";
const NAME_OF_VERSION: &str = "#version";
const SEEN: &str = ":seen";

/// A table, and what was done with it. It connects when it is first used.
pub(crate) struct Table {
    options: DynamoOptions,
    connection: OnceCell<Connection>,
    check: ClockCheck,
    pub(crate) counters: Arc<Counters>,
}

/// One item of a write.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) key: String,
    /// The version that it must still have; zero if it must not be there.
    pub(crate) on_version: u64,
    /// What it becomes; none if it stays as it is.
    pub(crate) attributes: Option<Attributes>,
}

/// What came of a write.
#[derive(Debug)]
pub(crate) enum Written {
    /// All of it was applied.
    Yes,
    /// None of it: these items were others than expected, and are this.
    Lost(Vec<(String, Option<Attributes>)>),
    /// None of it: a transaction was on one of the items.
    Conflict,
}

impl Table {
    pub(crate) fn new(options: DynamoOptions, check: ClockCheck, counters: Arc<Counters>) -> Self {
        Self { options, connection: OnceCell::new(), check, counters }
    }

    async fn connection(&self) -> Result<&Connection, StoreError> {
        let open = async {
            let DynamoOptions { connect, table, create, .. } = &self.options;
            let connection = Connection::open(connect, table, &self.check).await?;
            if *create {
                create_if_missing(&connection, table).await?;
            }
            Ok(connection)
        };
        self.connection.get_or_try_init(|| open).await
    }

    /// Reads an item as it is now; none if it is not there.
    pub(crate) async fn read(&self, key: &str) -> Result<Option<Attributes>, StoreError> {
        let connection = self.connection().await?;
        let request = connection.client.get_item().table_name(&self.options.table).consistent_read(true);
        let begun = Instant::now();
        count(&self.counters.reads);
        let reply = request.key(KEY, AttributeValue::S(key.to_owned())).send().await;
        self.counters.read_latency.note(begun.elapsed());
        reply.map(|read| read.item).map_err(|error| self.note_throttle(connection.failed(&error, Kind::Read)))
    }

    /// Adds one to counters of an item, removes others, and sets what is not there yet. Returns the item.
    pub(crate) async fn count(
        &self,
        key: &str,
        defaults: Attributes,
        add: Vec<String>,
        remove: Vec<String>,
    ) -> Result<Attributes, StoreError> {
        let connection = self.connection().await?;
        let mut request = connection.client.update_item().table_name(&self.options.table);
        let mut set = Vec::new();
        for (index, (name, value)) in defaults.into_iter().enumerate() {
            set.push(format!("#s{index} = if_not_exists(#s{index}, :s{index})"));
            request = request.expression_attribute_names(format!("#s{index}"), name);
            request = request.expression_attribute_values(format!(":s{index}"), value);
        }
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for (index, name) in add.into_iter().enumerate() {
            added.push(format!("#a{index} :one"));
            request = request.expression_attribute_names(format!("#a{index}"), name);
        }
        for (index, name) in remove.into_iter().enumerate() {
            removed.push(format!("#r{index}"));
            request = request.expression_attribute_names(format!("#r{index}"), name);
        }
        let removed =
            if removed.is_empty() { String::new() } else { format!(" REMOVE {}", removed.join(", ")) };
        let reply = request
            .key(KEY, AttributeValue::S(key.to_owned()))
            .update_expression(format!("SET {} ADD {}{removed}", set.join(", "), added.join(", ")))
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
            .return_values(ReturnValue::AllNew)
            .send()
            .await;
        let reply = reply.map_err(|error| self.note_throttle(connection.failed(&error, Kind::Write)))?;
        Ok(reply.attributes.unwrap_or_default())
    }

    /// Writes all of it, or nothing if any item is not as expected.
    pub(crate) async fn write(&self, mut changes: Vec<Change>) -> Result<Written, StoreError> {
        let connection = self.connection().await?;
        let begun = Instant::now();
        count(&self.counters.writes);
        let written = match (changes.pop(), changes.is_empty()) {
            (Some(only), true) => self.write_one(connection, only).await,
            (Some(last), false) => {
                changes.push(last);
                self.write_together(connection, changes).await
            }
            (None, _) => Ok(Written::Yes),
        };
        self.counters.write_latency.note(begun.elapsed());
        match &written {
            Ok(Written::Lost(_)) => count(&self.counters.conditional_failures),
            Ok(Written::Conflict) => count(&self.counters.conflicts),
            _ => {}
        }
        written.map_err(|error| self.note_throttle(error))
    }

    async fn write_one(&self, connection: &Connection, change: Change) -> Result<Written, StoreError> {
        let Change { key, on_version, attributes } = change;
        let mut request = connection.client.put_item().table_name(&self.options.table).set_item(attributes);
        request =
            request.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        request = if on_version == 0 {
            request
                .condition_expression(format!("attribute_not_exists({NAME_OF_KEY})"))
                .expression_attribute_names(NAME_OF_KEY, KEY)
        } else {
            request
                .condition_expression(format!("{NAME_OF_VERSION} = {SEEN}"))
                .expression_attribute_names(NAME_OF_VERSION, VERSION)
                .expression_attribute_values(SEEN, AttributeValue::N(on_version.to_string()))
        };
        let Err(error) = request.send().await else { return Ok(Written::Yes) };
        match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(lost)) => {
                Ok(Written::Lost(vec![(key, lost.item.clone())]))
            }
            Some(PutItemError::TransactionConflictException(_)) => Ok(Written::Conflict),
            _ => Err(connection.failed(&error, Kind::Write)),
        }
    }

    async fn write_together(
        &self,
        connection: &Connection,
        changes: Vec<Change>,
    ) -> Result<Written, StoreError> {
        let keys: Vec<String> = changes.iter().map(|change| change.key.clone()).collect();
        let items: Result<Vec<_>, _> = changes.into_iter().map(|change| self.part(change)).collect();
        let request = connection.client.transact_write_items().set_transact_items(Some(items?));
        let Err(error) = request.send().await else { return Ok(Written::Yes) };
        match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                why_cancelled(&connection.service, keys, cancelled)
            }
            Some(TransactWriteItemsError::TransactionInProgressException(_)) => Ok(Written::Conflict),
            Some(said) if said.code() == Some("TransactionConflictException") => Ok(Written::Conflict),
            _ => Err(connection.failed(&error, Kind::Write)),
        }
    }

    /// One item of a transaction.
    fn part(&self, change: Change) -> Result<TransactWriteItem, StoreError> {
        let (condition, name, attribute) = if change.on_version == 0 {
            (format!("attribute_not_exists({NAME_OF_KEY})"), NAME_OF_KEY, KEY)
        } else {
            (format!("{NAME_OF_VERSION} = {SEEN}"), NAME_OF_VERSION, VERSION)
        };
        let seen = (change.on_version > 0)
            .then(|| Attributes::from([(SEEN.to_owned(), AttributeValue::N(change.on_version.to_string()))]));
        let old = ReturnValuesOnConditionCheckFailure::AllOld;
        let item = TransactWriteItem::builder();
        let item = match change.attributes {
            Some(attributes) => item.put(
                Put::builder()
                    .table_name(&self.options.table)
                    .set_item(Some(attributes))
                    .condition_expression(condition)
                    .expression_attribute_names(name, attribute)
                    .set_expression_attribute_values(seen)
                    .return_values_on_condition_check_failure(old)
                    .build()
                    .map_err(|error| unreadable("a write", &error))?,
            ),
            None => item.condition_check(
                ConditionCheck::builder()
                    .table_name(&self.options.table)
                    .key(KEY, AttributeValue::S(change.key))
                    .condition_expression(condition)
                    .expression_attribute_names(name, attribute)
                    .set_expression_attribute_values(seen)
                    .return_values_on_condition_check_failure(old)
                    .build()
                    .map_err(|error| unreadable("a condition", &error))?,
            ),
        };
        Ok(item.build())
    }

    fn note_throttle(&self, error: StoreError) -> StoreError {
        if error.fault == Fault::Throttled {
            count(&self.counters.throttles);
        }
        error
    }
}

/// A transaction was not applied: each of its items says what it has to do with that.
fn why_cancelled(
    service: &str,
    keys: Vec<String>,
    cancelled: &TransactionCanceledException,
) -> Result<Written, StoreError> {
    let reasons = cancelled.cancellation_reasons();
    let codes = || reasons.iter().filter_map(|reason| reason.code());
    if let Some(code) = codes().find(|code| is_throttle(code)) {
        let message = format!("{service}: {code} in a transaction");
        return Err(StoreError { fault: Fault::Throttled, retry: Retry::Safe, message });
    }
    let lost = keys.into_iter().zip(reasons);
    let lost = lost.filter(|(_, reason)| reason.code() == Some("ConditionalCheckFailed"));
    let lost: Vec<_> = lost.map(|(key, reason)| (key, reason.item.clone())).collect();
    if !lost.is_empty() {
        return Ok(Written::Lost(lost));
    }
    if codes().any(|code| code == "TransactionConflict") {
        return Ok(Written::Conflict);
    }
    let said = reasons.iter().find_map(|reason| reason.message()).unwrap_or("it gives no reason");
    let message = format!("{service}: a transaction was cancelled: {said}");
    Err(StoreError { fault: Fault::Store, retry: Retry::Useless, message })
}
