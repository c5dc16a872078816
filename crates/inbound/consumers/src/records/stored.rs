//! Converts records to and from database rows. Values read back are validated like those of a request.

use std::fmt::Display;

use tollway_core::Timestamp;

use super::RecordsError;
use crate::amounts::Amounts;
use crate::consumer_id::ConsumerId;
use crate::date::RecordDate;
use crate::record::{Draft, Record, RecordId};
use crate::scope::Scope;
use crate::validity::Validity;

/// The columns of a record, times in microseconds since 1970.
pub(crate) struct Stored {
    pub(crate) id: String,
    pub(crate) consumer: String,
    pub(crate) api_name: Option<String>,
    pub(crate) api_version: Option<String>,
    pub(crate) bank_id: Option<String>,
    pub(crate) valid_from: i64,
    pub(crate) valid_to: i64,
    pub(crate) amounts: [i64; 6],
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
}

impl Stored {
    pub(crate) fn into_record(self) -> Result<Record, RecordsError> {
        let (from, to) = (date("valid_from", self.valid_from)?, date("valid_to", self.valid_to)?);
        let scope = Scope::new(self.api_name, self.api_version, self.bank_id);
        let draft = Draft {
            consumer: read_consumer(&self.consumer)?,
            scope: scope.map_err(|error| unreadable("the scope", &error))?,
            validity: Validity::new(from, to).map_err(|error| unreadable("the dates", &error))?,
            amounts: Amounts::new(self.amounts).map_err(|error| unreadable("an amount", &error))?,
        };
        let id: RecordId = self.id.parse().map_err(|error| unreadable("the id", &error))?;
        let created_at = time("created_at", self.created_at)?;
        Ok(Record { id, draft, created_at, updated_at: time("updated_at", self.updated_at)? })
    }
}

pub(crate) fn read_consumer(text: &str) -> Result<ConsumerId, RecordsError> {
    ConsumerId::new(text).map_err(|error| unreadable("the consumer", &error))
}

/// A date as a column value.
pub(crate) fn micros(date: RecordDate) -> i64 {
    // The range of dates is far below `i64::MAX`.
    date.as_micros().cast_signed()
}

fn date(column: &str, micros: i64) -> Result<RecordDate, RecordsError> {
    let micros = u64::try_from(micros).map_err(|error| unreadable(column, &error))?;
    Ok(RecordDate::from_micros(micros))
}

pub(crate) fn time(column: &str, micros: i64) -> Result<Timestamp, RecordsError> {
    date(column, micros).map(RecordDate::timestamp)
}

fn unreadable(what: &str, why: &dyn Display) -> RecordsError {
    RecordsError::unreadable(what, why)
}
