//! Our own JSON: numbers are numbers, no limit is null, and times are of ISO 8601.

mod limits;
mod period_limits;
mod records;

use limits::{ConsumerLimits, ConsumerUsage, ConsumersState};
use records::{ConsumerRecord, ConsumerRecords, NewConsumerRecord};
use tollway_consumers::{Active, CallLimits, ConsumerId, Counter, Draft, Hour, HourError, Record, read_date};

use super::management_json::{LimitingState, ManagementJson};
use crate::http::Problem;

/// The neutral shape.
pub(super) struct Neutral;

impl ManagementJson for Neutral {
    type RecordBody = NewConsumerRecord;
    type Record = ConsumerRecord;
    type Records = ConsumerRecords;
    type Active = ConsumerLimits;
    type CallLimits = ConsumerUsage;
    type Counters = ConsumerUsage;
    type LimitingState = ConsumersState;

    fn draft(body: &[u8], consumer: ConsumerId) -> Result<Draft, Problem> {
        NewConsumerRecord::draft(body, consumer)
    }

    /// The hour of UTC that contains a time.
    fn hour(text: &str) -> Result<Hour, Problem> {
        let moment = read_date(text).map_err(|error| Problem::bad_request(error.to_string()))?;
        let hour = Hour::of(moment.timestamp());
        if hour > Hour::LAST {
            return Err(Problem::bad_request(HourError::OutOfRange(text.to_owned()).to_string()));
        }
        Ok(hour)
    }

    fn record(record: &Record) -> ConsumerRecord {
        ConsumerRecord::of(record)
    }

    fn records(consumer: &ConsumerId, records: &[Record]) -> ConsumerRecords {
        ConsumerRecords::of(consumer, records)
    }

    fn active(consumer: &ConsumerId, active: &Active) -> ConsumerLimits {
        ConsumerLimits::of(consumer, active)
    }

    fn call_limits(consumer: &ConsumerId, limits: &CallLimits, counters: &[Counter]) -> ConsumerUsage {
        ConsumerUsage::of(consumer, limits, counters)
    }

    fn counters(consumer: &ConsumerId, limits: &CallLimits, counters: &[Counter]) -> ConsumerUsage {
        Self::call_limits(consumer, limits, counters)
    }

    fn limiting_state(state: &LimitingState) -> ConsumersState {
        ConsumersState::of(state)
    }
}
