//! Whether records limit anybody: a consumer that somebody asks for, or any at all.

use std::path::Path;
use std::sync::Arc;

use tollway::{ConsumersConfig, RecordsUrl, Timestamp};
use tollway_consumers::{
    Active, Amounts, CallLimits, ConsumerId, Hour, PAGE_MAX, Records, RecordsError, open_records, write_date,
};

use super::finding::{Finding, Findings};

const MAKE_ONE: &str = "make a record that is valid now: POST \
     /obp/v6.0.0/management/consumers/ID/consumer/rate-limits; or set the defaults, as in `per_minute = 100` of [consumers]";

/// What limits consumers in this hour.
struct InForce {
    records: Arc<dyn Records>,
    defaults: Amounts,
    hour: Hour,
}

pub(super) async fn look_at(
    config: &ConsumersConfig,
    consumer: Option<&ConsumerId>,
    now: Timestamp,
    findings: &mut Findings,
) {
    // Records are not what keeps anybody from being limited then.
    let Some(defaults) = Amounts::new(config.defaults).ok().filter(|_| config.enabled) else { return };
    findings.looked_at(format!("records {}", config.records));
    let found = match open(&config.records) {
        Ok(None) => nothing_kept(consumer, &defaults),
        Ok(Some(records)) => {
            let in_force = InForce { records, defaults, hour: Hour::of(now) };
            match consumer {
                Some(consumer) => in_force.look_at_one(consumer).await,
                None => in_force.look_at_all().await,
            }
        }
        Err(error) => Err(error),
    };
    match found {
        Ok(found) => findings.findings.extend(found),
        Err(error) => findings.add(Finding::problem(
            "records-unreachable",
            format!("the records of consumers cannot be read: {error}"),
            "nobody knows what limits a consumer; while it lasts, `when_store_fails` of [consumers] decides",
            "see that `records` of [consumers] names the right place, that it is there, and that this user may read it",
        )),
    }
}

/// The records, unless there is nothing to open: to look must not make a file.
fn open(url: &RecordsUrl) -> Result<Option<Arc<dyn Records>>, RecordsError> {
    let is_there = |path: &Path| path.metadata().is_ok_and(|file| file.len() > 0);
    match url {
        RecordsUrl::Memory => Ok(None),
        RecordsUrl::Sqlite(path) if !is_there(path) => Ok(None),
        _ => open_records(&url.expose()).map(Some),
    }
}

fn nothing_kept(consumer: Option<&ConsumerId>, defaults: &Amounts) -> Result<Option<Finding>, RecordsError> {
    let unlimited = CallLimits::sum([defaults]).is_unlimited();
    Ok(match consumer {
        Some(consumer) => Some(no_record(consumer, unlimited, "it has no record")),
        None => unlimited.then(no_records),
    })
}

impl InForce {
    async fn look_at_one(&self, consumer: &ConsumerId) -> Result<Option<Finding>, RecordsError> {
        let kept = self.records.consumer(consumer).await?;
        let active = Active::of(&kept.records, self.hour, &self.defaults, kept.blocked);
        if active.blocked {
            let why = "none of its calls is let through, so that nothing is counted";
            let fix = "PUT /obp/v6.0.0/management/consumers/ID/blocked, if that is not meant";
            return Ok(Some(Finding::note(
                "consumer-blocked",
                format!("consumer {consumer} is blocked"),
                why,
                fix,
            )));
        }
        if !active.considered.is_empty() {
            let why = "its records of this hour have no positive amount, and -1 and 0 limit nothing";
            let what = format!("nothing limits consumer {consumer}");
            return Ok(active
                .limits
                .is_unlimited()
                .then(|| Finding::problem("no-record", what, why, MAKE_ONE)));
        }
        let dates = kept.records.iter().map(|record| {
            let validity = &record.draft.validity;
            format!("{} to {}", write_date(validity.from()), write_date(validity.to()))
        });
        let dates: Vec<String> = dates.take(super::finding::NAMED_MAX).collect();
        let which = match dates.is_empty() {
            true => "it has no record".to_owned(),
            false => format!(
                "none of its records is valid in this hour of UTC, {}: {}",
                self.hour,
                dates.join(", ")
            ),
        };
        Ok(Some(no_record(consumer, active.limits.is_unlimited(), &which)))
    }

    /// Whether anybody is limited by a record; as many are asked for as fit on a page.
    async fn look_at_all(&self) -> Result<Option<Finding>, RecordsError> {
        if !CallLimits::sum([&self.defaults]).is_unlimited() {
            return Ok(None);
        }
        for consumer in self.records.consumers(None, PAGE_MAX).await? {
            let kept = self.records.consumer(&consumer).await?;
            let active = Active::of(&kept.records, self.hour, &self.defaults, kept.blocked);
            if active.blocked || !active.limits.is_unlimited() {
                return Ok(None);
            }
        }
        Ok(Some(no_records()))
    }
}

fn no_record(consumer: &ConsumerId, unlimited: bool, which: &str) -> Finding {
    let what = format!("no record limits consumer {consumer}: {which}");
    if unlimited {
        let why = "the defaults limit nothing either, so that it may call as often as it likes";
        return Finding::problem("no-record", what, why, MAKE_ONE);
    }
    let why = "the defaults of [consumers] are in force for it";
    Finding::note("no-record", what, why, "make a record for it, if it is to have limits of its own")
}

fn no_records() -> Finding {
    Finding::problem(
        "no-records",
        "no consumer has a record that limits it now, and the defaults limit nothing",
        "every consumer may call as often as it likes; only anonymous callers are limited",
        MAKE_ONE,
    )
}
