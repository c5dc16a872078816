//! The requests to a table of minutes: read an item, and change its count on a condition.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tollway_aws::{ClockCheck, Connect};
use tollway_core::{Fault, StoreError, Timestamp};

use super::counter::Counter;
use super::minute_item::{COUNT, MinuteItem, count_of};
use super::plan::Plan;
use super::proof::{Mark, PUSHED_OUT, Slot, attribute, seconds, stale_before};
use crate::connection::Connection;
use crate::counters::{Counters, count};
use crate::error::Kind;

/// The items of a table. It connects when it is first used.
pub(super) struct Items {
    pub(super) table: String,
    pub(super) connect: Connect,
    pub(super) connection: OnceCell<Connection>,
    pub(super) check: ClockCheck,
    pub(super) counters: Arc<Counters>,
}

/// A change of one item.
pub(super) struct Update<'a> {
    pub(super) counter: &'a Counter,
    pub(super) plan: &'a Plan,
    pub(super) mark: &'a Mark,
    /// The first number that this call can have had: a mark from there on is its own.
    pub(super) own_from: u64,
    pub(super) slot: &'a Slot,
    pub(super) now: Timestamp,
}

/// What came of a write.
#[derive(Debug)]
pub(super) enum Written {
    /// It was applied, and this is the count now.
    Yes(u64),
    /// It was not: the item is not as it should be, but this.
    No(MinuteItem),
}

impl Items {
    async fn connection(&self) -> Result<&Connection, StoreError> {
        self.connection.get_or_try_init(|| Connection::open(&self.connect, &self.table, &self.check)).await
    }

    /// The item as it is now.
    pub(super) async fn read(&self, counter: &Counter) -> Result<MinuteItem, StoreError> {
        let connection = self.connection().await?;
        let request = connection.client.get_item().table_name(&self.table).consistent_read(true);
        let begun = Instant::now();
        count(&self.counters.reads);
        let reply = request.set_key(Some(counter.key())).send().await;
        self.counters.read_latency.note(begun.elapsed());
        let item = reply.map_err(|error| self.note_throttle(connection.failed(&error, Kind::Read)))?.item;
        item.map_or_else(|| Ok(MinuteItem::default()), |item| MinuteItem::of(&item))
    }

    /// Changes the count as planned, if the plan holds for it.
    pub(super) async fn write(&self, update: &Update<'_>) -> Result<Written, StoreError> {
        let connection = self.connection().await?;
        let begun = Instant::now();
        count(&self.counters.writes);
        let reply = request(&connection.client, &self.table, update).send().await;
        self.counters.write_latency.note(begun.elapsed());
        match reply {
            Ok(reply) => count_of(&reply.attributes.unwrap_or_default()).map(Written::Yes),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(lost)) => {
                    count(&self.counters.conditional_failures);
                    lost.item
                        .as_ref()
                        .map_or_else(|| Ok(MinuteItem::default()), MinuteItem::of)
                        .map(Written::No)
                }
                _ => Err(self.note_throttle(connection.failed(&error, Kind::Write))),
            },
        }
    }

    fn note_throttle(&self, error: StoreError) -> StoreError {
        if error.fault == Fault::Throttled {
            count(&self.counters.throttles);
        }
        error
    }
}

type Request = aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;

/// The increment that other programs use on the same item, for several units at a time, and with a mark.
fn request(client: &Client, table: &str, update: &Update<'_>) -> Request {
    let number = |number: &dyn ToString| AttributeValue::N(number.to_string());
    let Update { counter, plan, mark, slot, .. } = update;
    let mut set = format!("SET {COUNT} = if_not_exists({COUNT}, :zero) + :delta, #ttl = :ttl, #slot = :mark");
    let mut request = client
        .update_item()
        .table_name(table)
        .set_key(Some(counter.key()))
        .expression_attribute_names("#ttl", "ttl")
        .expression_attribute_names("#slot", attribute(slot.index))
        .expression_attribute_values(":zero", number(&0))
        .expression_attribute_values(":delta", number(&plan.delta()))
        .expression_attribute_values(":ttl", number(&counter.ttl()))
        .expression_attribute_values(":mark", mark.to_attribute())
        .return_values(ReturnValue::UpdatedNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    let room = match plan.least {
        0 => format!("(attribute_not_exists({COUNT}) OR {COUNT} <= :most)"),
        least => {
            request = request.expression_attribute_values(":least", number(&least));
            format!("{COUNT} BETWEEN :least AND :most")
        }
    };
    request = request.expression_attribute_values(":most", number(&plan.most));
    let place;
    (request, place) = condition_of_slot(request, update);
    if slot.evicts.is_some() {
        set.push_str(", ");
        set.push_str(PUSHED_OUT);
        set.push_str(" = :now");
        request = request.expression_attribute_values(":now", number(&seconds(update.now)));
    }
    request.update_expression(set).condition_expression(format!("{room} AND {place}"))
}

/// The slot is free, or holds this writer's mark of an earlier call, an expired one, or exactly the one to be evicted.
fn condition_of_slot(request: Request, update: &Update<'_>) -> (Request, &'static str) {
    let number = |number: u64| AttributeValue::N(number.to_string());
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let request =
        request.expression_attribute_names("#by", "by").expression_attribute_names("#number", "number");
    match &update.slot.evicts {
        None => {
            let condition = "(attribute_not_exists(#slot) OR #slot.#at < :stale \
                             OR (#slot.#by = :by AND #slot.#number < :own))";
            let request = request
                .expression_attribute_names("#at", "at")
                .expression_attribute_values(":by", text(&update.mark.writer))
                .expression_attribute_values(":stale", number(stale_before(update.now)))
                .expression_attribute_values(":own", number(update.own_from));
            (request, condition)
        }
        Some(oldest) => {
            let request = request
                .expression_attribute_values(":by", text(&oldest.writer))
                .expression_attribute_values(":number", number(oldest.number.0));
            (request, "(#slot.#by = :by AND #slot.#number = :number)")
        }
    }
}
