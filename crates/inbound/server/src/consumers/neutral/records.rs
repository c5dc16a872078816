//! Records in our own JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollway_consumers::{
    Amounts, ConsumerId, Draft, Record, RecordDate, SCOPE_BYTES_MAX, Scope, Validity, write_date,
};

use super::period_limits::PeriodLimits;
use crate::consumers::management_json::date;
use crate::http::Problem;

/// The dates of a record that names none. The end is the last millisecond that can be written.
const FIRST: RecordDate = RecordDate::from_micros(0);
const LAST: RecordDate = RecordDate::from_micros(RecordDate::MAX.as_micros() / 1_000 * 1_000);

/// A record to create, or to put in the place of another.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a record as an object")]
pub(crate) struct NewConsumerRecord {
    /// Its start, in UTC or with an offset, in seconds or milliseconds. Left out: the start of 1970.
    #[serde(default)]
    #[schemars(extend("format" = "date-time"))]
    from: Option<String>,
    /// Its end. The record counts for every hour that it overlaps. Left out: the end of 9999.
    #[serde(default)]
    #[schemars(extend("format" = "date-time"))]
    to: Option<String>,
    limits: PeriodLimits,
    #[serde(default)]
    scope: RecordScope,
}

/// Tells records of a consumer apart. It selects no calls: all records count.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RecordScope {
    #[schemars(length(min = 1, max = SCOPE_BYTES_MAX))]
    api_name: Option<String>,
    #[schemars(length(min = 1, max = SCOPE_BYTES_MAX))]
    api_version: Option<String>,
    #[schemars(length(min = 1, max = SCOPE_BYTES_MAX))]
    bank_id: Option<String>,
}

impl NewConsumerRecord {
    /// Parses and checks the whole body before anything changes.
    pub(super) fn draft(body: &[u8], consumer: ConsumerId) -> Result<Draft, Problem> {
        let Self { from, to, limits, scope } =
            serde_json::from_slice(body).map_err(|error| Problem::bad_json(&error))?;
        let from = from.map_or(Ok(FIRST), |text| date("from", &text))?;
        let to = to.map_or(Ok(LAST), |text| date("to", &text))?;
        let validity = Validity::new(from, to).map_err(|error| Problem::bad_record(error.to_string()))?;
        let RecordScope { api_name, api_version, bank_id } = scope;
        let scope = Scope::new(api_name, api_version, bank_id);
        let scope = scope.map_err(|error| Problem::bad_record(format!("scope: {error}")))?;
        let amounts = Amounts::new(limits.amounts());
        let amounts = amounts.map_err(|error| Problem::bad_record(error.to_string()))?;
        Ok(Draft { consumer, scope, validity, amounts })
    }
}

/// A stored record.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ConsumerRecord {
    id: String,
    #[schemars(extend("format" = "date-time"))]
    from: String,
    #[schemars(extend("format" = "date-time"))]
    to: String,
    limits: PeriodLimits,
    scope: RecordScope,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    #[schemars(extend("format" = "date-time"))]
    updated_at: String,
}

impl ConsumerRecord {
    pub(super) fn of(record: &Record) -> Self {
        let Draft { scope, validity, amounts, .. } = &record.draft;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Self {
            id: record.id.to_string(),
            from: write_date(validity.from()),
            to: write_date(validity.to()),
            limits: PeriodLimits::new(|period| amounts.of(period)),
            scope: RecordScope {
                api_name: owned(scope.api_name()),
                api_version: owned(scope.api_version()),
                bank_id: owned(scope.bank_id()),
            },
            created_at: write_date(record.created_at),
            updated_at: write_date(record.updated_at),
        }
    }
}

/// All records of a consumer, sorted by start.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ConsumerRecords {
    consumer_id: String,
    records: Vec<ConsumerRecord>,
}

impl ConsumerRecords {
    pub(super) fn of(consumer: &ConsumerId, records: &[Record]) -> Self {
        let records = records.iter().map(ConsumerRecord::of).collect();
        Self { consumer_id: consumer.to_string(), records }
    }
}
