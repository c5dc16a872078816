//! The ledger's table: items with a version, read, listed and written on conditions.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, Delete, KeysAndAttributes, Put, ReturnValue,
    ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use tollway_core::Retry;
use tollway_pipeline::EngineError;

use super::clients::{Clients, retried};
use super::error::{failed, refused, storage};

/// The names of the key: a partition and a place in it.
pub(super) const PART: &str = "part";
pub(super) const SORT: &str = "sort";

/// How often an item was written. Every write names the one it saw.
pub(super) const VERSION: &str = "version";

/// Who hands a job on that its parent has not finished yet.
pub(super) const PARENT: &str = "parent";

/// When DynamoDB may delete an item.
pub(super) const TTL: &str = "ttl";

/// How many items DynamoDB reads, and writes together, in one call.
const READ_MAX: usize = 100;
pub(super) const WRITE_MAX: usize = 100;

/// How many pages of answers one call may need.
const PAGES_MAX: usize = 1_000;

pub(super) type Item = HashMap<String, AttributeValue>;

/// Where an item is.
pub(super) type Key = (String, String);

/// What an item must be like before it is written.
#[derive(Clone, Debug)]
pub(super) enum Guard {
    Any,
    Absent,
    /// Not there, or handed on by this job, which is not finished.
    AbsentOrOf(u64),
    Version(u64),
}

/// A part of a write.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Put(Item, Guard),
    Delete(Key, Guard),
    /// Writes nothing, but must hold.
    Check(Key, Guard),
    /// Adds numbers to attributes.
    Add(Key, Vec<(String, i64)>),
}

/// The outcome of a write.
#[derive(Debug)]
pub(super) enum Written {
    Yes,
    /// Nothing was written: these parts found other items than expected.
    Lost(Vec<(usize, Option<Item>)>),
}

/// The table.
pub(super) struct Table {
    name: String,
    clients: Arc<Clients>,
}

impl Table {
    pub(super) fn new(name: &str, clients: Arc<Clients>) -> Self {
        Self { name: name.to_owned(), clients }
    }

    fn service(&self) -> String {
        self.clients.table_in_messages(&self.name)
    }

    pub(super) async fn get(&self, key: &Key) -> Result<Option<Item>, EngineError> {
        retried!({
            let request = self.clients.dynamodb().await?.get_item().table_name(&self.name);
            let request = request.set_key(Some(item_key(key))).consistent_read(true);
            request.send().await.map(|read| read.item).map_err(|error| failed(&self.service(), &error))
        })
    }

    /// The items of some keys, in their order.
    pub(super) async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, EngineError> {
        let mut found: HashMap<Key, Item> = HashMap::new();
        let mut distinct: Vec<&Key> = keys.iter().collect();
        distinct.sort_unstable();
        distinct.dedup();
        for keys in distinct.chunks(READ_MAX) {
            let asked = KeysAndAttributes::builder().consistent_read(true);
            let asked = asked.set_keys(Some(keys.iter().map(|key| item_key(key)).collect())).build();
            let mut asked = asked.map_err(|error| storage(Retry::Useless, error.to_string()))?;
            for _ in 0..PAGES_MAX {
                let answer = retried!({
                    let request = self.clients.dynamodb().await?.batch_get_item();
                    let request = request.request_items(&self.name, asked.clone());
                    request.send().await.map_err(|error| failed(&self.service(), &error))
                })?;
                let items = answer.responses.unwrap_or_default().remove(&self.name).unwrap_or_default();
                found.extend(items.into_iter().filter_map(|item| Some((key_of(&item)?, item))));
                match answer.unprocessed_keys.unwrap_or_default().remove(&self.name) {
                    Some(left) if !left.keys.is_empty() => asked = left,
                    _ => break,
                }
            }
        }
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    /// Items of a partition behind a place, in order; at least one page and at most about `limit`. Whether there are more.
    pub(super) async fn list(
        &self,
        part: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Item>, bool), EngineError> {
        self.list_under(part, "", after, limit).await
    }

    /// The same for places that begin with a prefix.
    pub(super) async fn list_under(
        &self,
        part: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Item>, bool), EngineError> {
        let mut items = Vec::new();
        let mut start = after.map(|sort| item_key(&(part.to_owned(), sort.to_owned())));
        for _ in 0..PAGES_MAX {
            let page = retried!({
                let request = self.clients.dynamodb().await?.query().table_name(&self.name);
                let mut request = request
                    .consistent_read(true)
                    .key_condition_expression("#part = :part")
                    .expression_attribute_names("#part", PART)
                    .expression_attribute_values(":part", text(part))
                    .limit(i32::try_from(limit - items.len()).unwrap_or(i32::MAX))
                    .set_exclusive_start_key(start.clone());
                if !prefix.is_empty() {
                    request = request
                        .key_condition_expression("#part = :part AND begins_with(#sort, :prefix)")
                        .expression_attribute_names("#sort", SORT)
                        .expression_attribute_values(":prefix", text(prefix));
                }
                request.send().await.map_err(|error| failed(&self.service(), &error))
            })?;
            items.extend(page.items.unwrap_or_default());
            start = page.last_evaluated_key.filter(|key| !key.is_empty());
            if start.is_none() || items.len() >= limit {
                break;
            }
        }
        Ok((items, start.is_some()))
    }

    /// Adds numbers to attributes of an item. The item afterwards.
    pub(super) async fn add(&self, key: &Key, numbers: &[(String, i64)]) -> Result<Item, EngineError> {
        let (expression, names, values) = additions(numbers);
        let request = self.clients.dynamodb().await?.update_item().table_name(&self.name);
        let request = request
            .set_key(Some(item_key(key)))
            .update_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .return_values(ReturnValue::AllNew);
        let answer = request.send().await.map_err(|error| failed(&self.service(), &error))?;
        Ok(answer.attributes.unwrap_or_default())
    }

    /// Writes one item, at half the price of a transaction.
    async fn put(&self, item: Item, guard: &Guard) -> Result<Written, EngineError> {
        let (condition, names, values) = guard.condition();
        retried!({
            let request = self.clients.dynamodb().await?.put_item().table_name(&self.name);
            let request = request
                .set_item(Some(item.clone()))
                .set_condition_expression(condition.clone())
                .set_expression_attribute_names(names.clone())
                .set_expression_attribute_values(values.clone())
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            let Err(error) = request.send().await else { return Ok(Written::Yes) };
            match error.as_service_error() {
                // The answer to an earlier attempt was lost.
                Some(PutItemError::ConditionalCheckFailedException(lost))
                    if lost.item.as_ref() == Some(&item) =>
                {
                    Ok(Written::Yes)
                }
                Some(PutItemError::ConditionalCheckFailedException(lost)) => {
                    Ok(Written::Lost(vec![(0, lost.item.clone())]))
                }
                Some(PutItemError::TransactionConflictException(_)) => Err(conflict(&self.service())),
                _ => Err(failed(&self.service(), &error)),
            }
        })
    }

    /// Writes all parts, or none. Parts are repeated under one token, so that none counts twice.
    pub(super) async fn write(&self, mut writes: Vec<Write>) -> Result<Written, EngineError> {
        if let [Write::Put(..)] = &writes[..]
            && let Some(Write::Put(item, guard)) = writes.pop()
        {
            return self.put(item, &guard).await;
        }
        if writes.is_empty() {
            return Ok(Written::Yes);
        }
        let items: Result<Vec<_>, _> = writes.into_iter().map(|write| self.part(write)).collect();
        let (items, token) = (items?, new_token());
        retried!({
            let request = self.clients.dynamodb().await?.transact_write_items();
            let request = request.set_transact_items(Some(items.clone())).client_request_token(&token);
            let Err(error) = request.send().await else { return Ok(Written::Yes) };
            match error.as_service_error() {
                Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                    why_cancelled(&self.service(), cancelled.cancellation_reasons())
                }
                Some(said)
                    if matches!(
                        said.code(),
                        Some("TransactionConflictException" | "TransactionInProgressException")
                    ) =>
                {
                    Err(conflict(&self.service()))
                }
                _ => Err(failed(&self.service(), &error)),
            }
        })
    }

    fn part(&self, write: Write) -> Result<TransactWriteItem, EngineError> {
        let wrong = |error: aws_sdk_dynamodb::error::BuildError| storage(Retry::Useless, error.to_string());
        let old = ReturnValuesOnConditionCheckFailure::AllOld;
        let item = TransactWriteItem::builder();
        Ok(match write {
            Write::Put(values, guard) => {
                let (condition, names, values_of) = guard.condition();
                let put = Put::builder().table_name(&self.name).set_item(Some(values));
                let put = put.set_condition_expression(condition).set_expression_attribute_names(names);
                let put = put.set_expression_attribute_values(values_of);
                item.put(put.return_values_on_condition_check_failure(old).build().map_err(wrong)?)
            }
            Write::Delete(key, guard) => {
                let (condition, names, values_of) = guard.condition();
                let delete = Delete::builder().table_name(&self.name).set_key(Some(item_key(&key)));
                let delete = delete.set_condition_expression(condition).set_expression_attribute_names(names);
                let delete = delete.set_expression_attribute_values(values_of);
                item.delete(delete.return_values_on_condition_check_failure(old).build().map_err(wrong)?)
            }
            Write::Check(key, guard) => {
                let (condition, names, values_of) = guard.condition();
                let check = ConditionCheck::builder().table_name(&self.name).set_key(Some(item_key(&key)));
                let check = check.set_condition_expression(condition).set_expression_attribute_names(names);
                let check = check.set_expression_attribute_values(values_of);
                item.condition_check(
                    check.return_values_on_condition_check_failure(old).build().map_err(wrong)?,
                )
            }
            Write::Add(key, numbers) => {
                let (expression, names, values) = additions(&numbers);
                let update = Update::builder().table_name(&self.name).set_key(Some(item_key(&key)));
                let update = update.update_expression(expression).set_expression_attribute_names(Some(names));
                let update = update.set_expression_attribute_values(Some(values));
                item.update(update.build().map_err(wrong)?)
            }
        }
        .build())
    }
}

type Condition = (Option<String>, Option<HashMap<String, String>>, Option<Item>);

impl Guard {
    fn condition(&self) -> Condition {
        let names = |pairs: &[(&str, &str)]| {
            Some(pairs.iter().map(|(short, name)| ((*short).to_owned(), (*name).to_owned())).collect())
        };
        let absent = "attribute_not_exists(#part)";
        match self {
            Self::Any => (None, None, None),
            Self::Absent => (Some(absent.to_owned()), names(&[("#part", PART)]), None),
            Self::AbsentOrOf(parent) => (
                Some(format!("{absent} OR #parent = :parent")),
                names(&[("#part", PART), ("#parent", PARENT)]),
                Some(Item::from([(":parent".to_owned(), number(*parent))])),
            ),
            Self::Version(seen) => (
                Some("#version = :seen".to_owned()),
                names(&[("#version", VERSION)]),
                Some(Item::from([(":seen".to_owned(), number(*seen))])),
            ),
        }
    }
}

fn additions(numbers: &[(String, i64)]) -> (String, HashMap<String, String>, Item) {
    let (mut parts, mut names, mut values) = (Vec::new(), HashMap::new(), Item::new());
    for (index, (name, amount)) in numbers.iter().enumerate() {
        parts.push(format!("#n{index} :n{index}"));
        names.insert(format!("#n{index}"), name.clone());
        values.insert(format!(":n{index}"), AttributeValue::N(amount.to_string()));
    }
    (format!("ADD {}", parts.join(", ")), names, values)
}

/// A token under which DynamoDB recognises a repeated transaction.
fn new_token() -> String {
    // Every hasher has keys of its own.
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}-{:016x}", random(), random())
}

fn conflict(service: &str) -> EngineError {
    refused(service, "RequestLimitExceeded", "another transaction is on the same item", false)
}

fn why_cancelled(
    service: &str,
    reasons: &[aws_sdk_dynamodb::types::CancellationReason],
) -> Result<Written, EngineError> {
    let lost = reasons.iter().enumerate().filter(|(_, why)| why.code() == Some("ConditionalCheckFailed"));
    let lost: Vec<_> = lost.map(|(index, why)| (index, why.item.clone())).collect();
    if !lost.is_empty() {
        return Ok(Written::Lost(lost));
    }
    let other = reasons.iter().find(|why| why.code().is_some_and(|code| code != "None"));
    match other {
        Some(why) if why.code() == Some("TransactionConflict") => Err(conflict(service)),
        Some(why) => {
            let code = why.code().unwrap_or_default();
            let code = if code == "ThrottlingError" { "ThrottlingException" } else { code };
            Err(refused(service, code, why.message().unwrap_or("a transaction was cancelled"), false))
        }
        None => {
            Err(storage(Retry::Useless, format!("{service}: a transaction was cancelled without a reason")))
        }
    }
}

pub(super) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

pub(super) fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(super) fn read_text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

pub(super) fn read_number<N: std::str::FromStr>(item: &Item, name: &str) -> Option<N> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

fn item_key((part, sort): &Key) -> Item {
    Item::from([(PART.to_owned(), text(part)), (SORT.to_owned(), text(sort))])
}

fn key_of(item: &Item) -> Option<Key> {
    Some((read_text(item, PART)?.to_owned(), read_text(item, SORT)?.to_owned()))
}
