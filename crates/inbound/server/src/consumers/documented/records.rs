//! Records in the documented JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollway_consumers::{Amounts, ConsumerId, Draft, Record, SCOPE_BYTES_MAX, Scope, Validity, write_date};

use super::limits::LimitTexts;
use crate::consumers::management_json::date;
use crate::http::Problem;

/// A record to create or change. All six limits are required; "-1" means no limit.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "a record as an object")]
#[schemars(deny_unknown_fields)]
pub(crate) struct RecordBody {
    /// Its start, in UTC or with an offset, in seconds or milliseconds.
    #[schemars(extend("format" = "date-time"))]
    from_date: String,
    /// Its end. The record counts for every hour that it overlaps.
    #[schemars(extend("format" = "date-time"))]
    to_date: String,
    /// Part of its scope. The scope only tells records apart: all of them count.
    #[serde(default)]
    #[schemars(length(min = 1, max = SCOPE_BYTES_MAX))]
    api_version: Option<String>,
    #[serde(default)]
    #[schemars(length(min = 1, max = SCOPE_BYTES_MAX))]
    api_name: Option<String>,
    #[serde(default)]
    #[schemars(length(min = 1, max = SCOPE_BYTES_MAX))]
    bank_id: Option<String>,
    #[serde(flatten)]
    #[schemars(with = "LimitTexts")]
    amounts: Amounts,
    /// Unknown fields, which are rejected.
    #[serde(flatten)]
    #[schemars(skip)]
    unknown: Map<String, Value>,
}

impl RecordBody {
    /// Parses and checks the whole body before anything changes.
    pub(super) fn draft(body: &[u8], consumer: ConsumerId) -> Result<Draft, Problem> {
        let question: Self = serde_json::from_slice(body).map_err(|error| Problem::bad_json(&error))?;
        if let Some(field) = question.unknown.keys().next() {
            return Err(Problem::bad_record(format!(
                "{field:?} is not a field of a record; there are from_date, to_date, api_version, api_name, bank_id, \
                 and per_second_call_limit to per_month_call_limit"
            )));
        }
        let (from, to) = (date("from_date", &question.from_date)?, date("to_date", &question.to_date)?);
        let validity = Validity::new(from, to).map_err(|error| Problem::bad_record(error.to_string()))?;
        let Self { api_name, api_version, bank_id, amounts, .. } = question;
        let scope = Scope::new(api_name, api_version, bank_id);
        let scope = scope.map_err(|error| Problem::bad_record(error.to_string()))?;
        Ok(Draft { consumer, scope, validity, amounts })
    }
}

/// A stored record.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RecordAnswer {
    rate_limiting_id: String,
    #[schemars(extend("format" = "date-time"))]
    from_date: String,
    #[schemars(extend("format" = "date-time"))]
    to_date: String,
    api_version: Option<String>,
    api_name: Option<String>,
    bank_id: Option<String>,
    #[serde(flatten)]
    limits: LimitTexts,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    #[schemars(extend("format" = "date-time"))]
    updated_at: String,
}

impl RecordAnswer {
    pub(super) fn of(record: &Record) -> Self {
        let Draft { scope, validity, amounts, .. } = &record.draft;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Self {
            rate_limiting_id: record.id.to_string(),
            from_date: write_date(validity.from()),
            to_date: write_date(validity.to()),
            api_version: owned(scope.api_version()),
            api_name: owned(scope.api_name()),
            bank_id: owned(scope.bank_id()),
            limits: LimitTexts::new(|period| amounts.of(period)),
            created_at: write_date(record.created_at),
            updated_at: write_date(record.updated_at),
        }
    }
}

/// All records of a consumer, sorted by start.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RecordsAnswer {
    limits: Vec<RecordAnswer>,
}

impl RecordsAnswer {
    pub(super) fn of(records: &[Record]) -> Self {
        Self { limits: records.iter().map(RecordAnswer::of).collect() }
    }
}
