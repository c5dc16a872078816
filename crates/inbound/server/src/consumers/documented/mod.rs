//! The JSON that the Open Bank Project documents: limits are texts, and -1 is no limit.

mod limits;
mod records;

use limits::{ActiveAnswer, CallLimitsAnswer, CountersAnswer, RateLimitingAnswer};
use records::{RecordAnswer, RecordBody, RecordsAnswer};
use tollway_consumers::{Active, CallLimits, ConsumerId, Counter, Draft, Hour, HourError, Record};

use super::management_json::{LimitingState, ManagementJson};
use crate::http::Problem;

/// The documented shape.
pub(super) struct Documented;

impl ManagementJson for Documented {
    type RecordBody = RecordBody;
    type Record = RecordAnswer;
    type Records = RecordsAnswer;
    type Active = ActiveAnswer;
    type CallLimits = CallLimitsAnswer;
    type Counters = CountersAnswer;
    type LimitingState = RateLimitingAnswer;

    fn draft(body: &[u8], consumer: ConsumerId) -> Result<Draft, Problem> {
        RecordBody::draft(body, consumer)
    }

    fn hour(text: &str) -> Result<Hour, Problem> {
        text.parse().map_err(|error: HourError| Problem::bad_request(error.to_string()))
    }

    fn record(record: &Record) -> RecordAnswer {
        RecordAnswer::of(record)
    }

    fn records(_: &ConsumerId, records: &[Record]) -> RecordsAnswer {
        RecordsAnswer::of(records)
    }

    fn active(_: &ConsumerId, active: &Active) -> ActiveAnswer {
        ActiveAnswer::of(active)
    }

    fn call_limits(_: &ConsumerId, limits: &CallLimits, counters: &[Counter]) -> CallLimitsAnswer {
        CallLimitsAnswer::of(limits, counters)
    }

    fn counters(_: &ConsumerId, _: &CallLimits, counters: &[Counter]) -> CountersAnswer {
        CountersAnswer::of(counters)
    }

    fn limiting_state(state: &LimitingState) -> RateLimitingAnswer {
        RateLimitingAnswer::of(state)
    }
}
