//! The bank's consumers and their limits.

use std::error::Error;

use tollway_consumers::{Amounts, ConsumerId, Draft, Records, Scope, Validity, read_date};

/// Records: consumer, scope, and calls per second, minute, hour, day, week and month; -1 is unlimited.
const RECORDS: [(&str, &str, [i64; 6]); 9] = [
    ("anna", "all", [-1, 100, 1_000, -1, -1, 200_000]),
    // Two records add up: 100 + 50.
    ("carla", "accounts", [-1, 100, -1, -1, -1, -1]),
    ("carla", "payments", [-1, 50, -1, -1, -1, -1]),
    // One each to show every message.
    ("second", "all", [1, -1, -1, -1, -1, -1]),
    ("minute", "all", [-1, 1, -1, -1, -1, -1]),
    ("hour", "all", [-1, -1, 1, -1, -1, -1]),
    ("day", "all", [-1, -1, -1, 1, -1, -1]),
    ("week", "all", [-1, -1, -1, -1, 1, -1]),
    ("month", "all", [-1, -1, -1, -1, -1, 1]),
];

/// The blocked consumer.
const BLOCKED: &str = "bert";

/// Creates the records. In production, use the management API of `tollway serve`.
pub(crate) async fn fill(records: &dyn Records) -> Result<(), Box<dyn Error>> {
    let validity = Validity::new(read_date("2020-01-01T00:00:00Z")?, read_date("2099-12-31T23:59:59Z")?)?;
    for (consumer, api, amounts) in RECORDS {
        let draft = Draft {
            consumer: ConsumerId::new(consumer)?,
            scope: Scope::new(Some(api.to_owned()), None, None)?,
            validity,
            amounts: Amounts::new(amounts)?,
        };
        records.create(draft).await?;
    }
    records.set_blocked(&ConsumerId::new(BLOCKED)?, true).await?;
    Ok(())
}
