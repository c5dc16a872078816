//! What the management of consumers is for programs.

use schemars::SchemaGenerator;

use super::{Description, schema};
use crate::admin::{
    ActiveAnswer, BlockedBody, CallLimitsAnswer, CountersAnswer, Management, RateLimitingAnswer,
    RecordAnswer, RecordBody, RecordsAnswer,
};

pub(super) fn describe(what: Management, schemas: &mut SchemaGenerator) -> Description {
    match what {
        Management::RateLimiting => Description::new("Whether consumers are limited, and by what.")
            .answering(200, "Whether.", schema::<RateLimitingAnswer>(schemas)),
        Management::CallLimits => Description::new("A consumer's limits in force, and what was counted.")
            .answering(200, "Limits as texts, and counters.", schema::<CallLimitsAnswer>(schemas)),
        Management::Records => Description::new("The records of a consumer.").answering(
            200,
            "All of them, by where they begin.",
            schema::<RecordsAnswer>(schemas),
        ),
        Management::CreateRecord => Description::new("Makes a record for a consumer.")
            .asking(schema::<RecordBody>(schemas))
            .answering(201, "The record.", schema::<RecordAnswer>(schemas)),
        Management::ChangeRecord => Description::new("Makes a record say something else.")
            .asking(schema::<RecordBody>(schemas))
            .answering(200, "The record.", schema::<RecordAnswer>(schemas)),
        Management::DeleteRecord => Description::new("Removes a record.").empty(204, "It is gone."),
        Management::ActiveNow => Description::new("The limits of a consumer in this hour.").answering(
            200,
            "The sums of its records.",
            schema::<ActiveAnswer>(schemas),
        ),
        Management::ActiveInHour => Description::new("The limits of a consumer in an hour of UTC.")
            .answering(200, "The sums of its records.", schema::<ActiveAnswer>(schemas)),
        Management::Counters => Description::new("What was counted for a consumer.").answering(
            200,
            "The counters there are.",
            schema::<CountersAnswer>(schemas),
        ),
        Management::ResetCounters => {
            Description::new("Makes the counters of a consumer new.").empty(204, "They are.")
        }
        Management::Blocked => Description::new("Whether a consumer is blocked.").answering(
            200,
            "Whether.",
            schema::<BlockedBody>(schemas),
        ),
        Management::SetBlocked => Description::new("Blocks a consumer, or no longer.")
            .asking(schema::<BlockedBody>(schemas))
            .answering(200, "It is so.", schema::<BlockedBody>(schemas)),
    }
}
