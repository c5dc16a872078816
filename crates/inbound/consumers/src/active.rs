//! The limits in force for a consumer in one hour.

use crate::amounts::{Amounts, CallLimits};
use crate::hour::Hour;
use crate::record::{Record, RecordId};

/// The limits in force for a consumer in one hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Active {
    /// How many calls each period allows.
    pub limits: CallLimits,
    /// The records that were summed. Empty: the system's defaults are in force.
    pub considered: Vec<RecordId>,
    /// Whether the consumer is blocked, whatever its limits.
    pub blocked: bool,
    /// The hour.
    pub hour: Hour,
    /// Whether this comes from the current records. If not, they cannot be read, and this is the last known state.
    pub current: bool,
}

impl Active {
    /// Sums the consumer's records that are valid at any moment of the hour. Without any, the defaults are in force.
    ///
    /// The scope does not matter here: all records of a consumer count for all of its calls.
    pub fn of(records: &[Record], hour: Hour, defaults: &Amounts, blocked: bool) -> Self {
        let counting = || records.iter().filter(|record| record.draft.validity.touches(hour));
        let considered: Vec<RecordId> = counting().map(|record| record.id).collect();
        let limits = if considered.is_empty() {
            CallLimits::sum([defaults])
        } else {
            CallLimits::sum(counting().map(|record| &record.draft.amounts))
        };
        Self { limits, considered, blocked, hour, current: true }
    }
}

#[cfg(test)]
mod tests {
    use tollway_core::{Period, Timestamp};

    use super::*;
    use crate::consumer_id::ConsumerId;
    use crate::date::read_date;
    use crate::record::Draft;
    use crate::scope::Scope;
    use crate::validity::Validity;

    const DEFAULTS: [i64; 6] = [-1, 60, -1, -1, -1, -1];

    fn record(from: &str, to: &str, minute: i64) -> Record {
        let draft = Draft {
            consumer: ConsumerId::new("c").unwrap(),
            scope: Scope::new(Some(format!("api {minute}")), None, None).unwrap(),
            validity: Validity::new(read_date(from).unwrap(), read_date(to).unwrap()).unwrap(),
            amounts: Amounts::new([-1, minute, -1, -1, -1, 0]).unwrap(),
        };
        let (created_at, updated_at) = (Timestamp::EPOCH, Timestamp::EPOCH);
        Record { id: RecordId::draw(), draft, created_at, updated_at }
    }

    fn active(records: &[Record], hour: &str) -> Active {
        Active::of(records, hour.parse().unwrap(), &Amounts::new(DEFAULTS).unwrap(), false)
    }

    fn minute(active: &Active) -> Option<u64> {
        active.limits.of(Period::Minute).map(std::num::NonZeroU64::get)
    }

    /// C3: positive amounts of all records are summed, whatever API they name, in every hour they touch.
    #[test]
    fn records_that_touch_the_hour_are_summed() {
        let records = [
            record("2026-06-01T12:01:47Z", "2026-06-01T13:59:59Z", 100),
            record("2026-06-01T13:30:00Z", "2026-06-01T14:00:00Z", 50),
            record("2026-06-01T00:00:00Z", "2026-06-30T00:00:00Z", -1),
        ];
        let ids: Vec<RecordId> = records.iter().map(|record| record.id).collect();
        for (hour, limit, considered) in [
            ("2026-06-01-11", None, &ids[2..]),
            ("2026-06-01-12", Some(100), &[ids[0], ids[2]]),
            ("2026-06-01-13", Some(150), &ids[..]),
            ("2026-06-01-14", Some(50), &ids[1..]),
            ("2026-06-01-15", None, &ids[2..]),
        ] {
            let active = active(&records, hour);
            assert_eq!((minute(&active), active.considered.as_slice()), (limit, considered), "{hour}");
            assert_eq!(active.limits.of(Period::Month), None, "0 is not a limit");
        }
    }

    /// C3: without a record that is valid in the hour, the system's defaults are in force.
    #[test]
    fn without_a_record_for_the_hour_the_defaults_apply() {
        let old = record("2026-05-01T00:00:00Z", "2026-05-31T23:59:59Z", 5);
        for records in [&[][..], &[old]] {
            let active = active(records, "2026-06-01-00");
            assert_eq!((minute(&active), active.considered.len()), (Some(60), 0));
        }
    }

    /// C3: a record with only -1 lifts the defaults.
    #[test]
    fn a_record_without_amounts_lifts_the_defaults() {
        let lifted = active(&[record("2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z", -1)], "2026-06-01-00");
        assert!(lifted.limits.is_unlimited());
    }

    /// C3: blocking is a flag of its own.
    #[test]
    fn blocking_changes_no_limit() {
        let hour = "2026-06-01-00".parse().unwrap();
        let blocked = Active::of(&[], hour, &Amounts::new(DEFAULTS).unwrap(), true);
        assert!(blocked.blocked);
        assert_eq!(minute(&blocked), Some(60));
    }
}
