//! The JSON of management, which exists in two shapes: how requests are read, and how answers are written.

use schemars::JsonSchema;
use serde::Serialize;
use tollway_consumers::{
    Active, CallLimits, ConsumerId, Counter, Draft, Hour, Record, RecordDate, read_date,
};

use crate::http::Problem;

/// One shape of the JSON. What the operations do is the same in both.
pub(super) trait ManagementJson {
    /// A record to create or change.
    type RecordBody: JsonSchema;
    type Record: Serialize + JsonSchema;
    type Records: Serialize + JsonSchema;
    /// The limits of a consumer in one hour.
    type Active: Serialize + JsonSchema;
    /// The limits of a consumer, and what it has used of them.
    type CallLimits: Serialize + JsonSchema;
    type Counters: Serialize + JsonSchema;
    type LimitingState: Serialize + JsonSchema;

    /// Reads and checks the whole body before anything changes.
    fn draft(body: &[u8], consumer: ConsumerId) -> Result<Draft, Problem>;

    /// Reads the hour that a path names.
    fn hour(text: &str) -> Result<Hour, Problem>;

    fn record(record: &Record) -> Self::Record;
    fn records(consumer: &ConsumerId, records: &[Record]) -> Self::Records;
    fn active(consumer: &ConsumerId, active: &Active) -> Self::Active;
    fn call_limits(consumer: &ConsumerId, limits: &CallLimits, counters: &[Counter]) -> Self::CallLimits;
    fn counters(consumer: &ConsumerId, limits: &CallLimits, counters: &[Counter]) -> Self::Counters;
    fn limiting_state(state: &LimitingState) -> Self::LimitingState;
}

/// Whether consumers are limited, and by what.
pub(super) struct LimitingState {
    /// The master switch.
    pub(super) enabled: bool,
    /// The store, in capital letters.
    pub(super) technology: &'static str,
    /// Whether the store answers.
    pub(super) available: bool,
}

/// The date in a field of a record.
pub(super) fn date(field: &str, text: &str) -> Result<RecordDate, Problem> {
    read_date(text).map_err(|error| Problem::bad_record(format!("{field}: {error}")))
}
