//! Checks that consumers are limited: the switch, how requests identify their consumer, and the records.

use std::path::Path;
use std::sync::Arc;

use tollway::Timestamp;
use tollway_consumers::{
    Active, Amounts, CONSUMERS_POLICY, CallLimits, ConsumerId, ConsumersConfig, Hour, PAGE_MAX, Records,
    RecordsError, RecordsUrl, Who, open_records, write_date,
};
use tollway_server::DescriptorTarget;

use super::finding::{Finding, Findings, NAMED_MAX};
use super::store_url::FullStoreUrl;
use crate::context::WholeConfig;

const MAKE_ONE: &str = "create a record that is valid now: POST \
     /obp/v6.0.0/management/consumers/ID/consumer/rate-limits; or set the defaults, e.g. `per_minute = 100` in [consumers]";

/// The most consumers that are checked: a few seconds' worth.
const CHECKED_MAX: usize = 100_000;

const WHY_OFF: &str = "no caller is limited or counted, whatever the records";

/// Checks the switch, and how requests identify their consumer.
pub(super) fn look_at(
    config: &WholeConfig,
    store: &FullStoreUrl,
    consumer: Option<&ConsumerId>,
    findings: &mut Findings,
) {
    match config.consumers() {
        None if consumer.is_some() || store.has_consumers_layout() => findings.add(Finding::problem(
            "consumers-missing",
            "the config has no section [consumers]",
            WHY_OFF,
            "add `[consumers]`, `enabled = true` and `header = \"x-consumer-id\"`; `tollway policy import obp` creates it \
             from the properties of OBP-API",
        )),
        None => {}
        Some(consumers) if !consumers.enabled => findings.add(Finding::problem(
            "consumers-off",
            "[consumers] has `enabled = false`",
            WHY_OFF,
            "set `enabled = true`; a running server applies it within a second",
        )),
        Some(consumers) => look_at_callers(config, consumers, findings),
    }
}

fn look_at_callers(config: &WholeConfig, consumers: &ConsumersConfig, findings: &mut Findings) {
    if let Err(error) = Who::new(&consumers.who) {
        findings.add(Finding::problem(
            "tokens-unreadable",
            error.to_string(),
            "a server does not start with it, and a running one keeps its previous tokens",
            "write one line `CONSUMER SHA-256` per token: printf %s TOKEN | sha256sum",
        ));
    }
    let shown = consumers.who.header.is_some() || consumers.who.tokens.is_some();
    if !shown && !is_named_by_envoy(config) {
        findings.add(Finding::problem(
            "nobody-is-named",
            "[consumers] has neither `header` nor `tokens`, and no descriptor names the policy `consumers`",
            "requests cannot identify their consumer: all count as anonymous callers, by address",
            "set `header = \"x-consumer-id\"` if a trusted proxy sets it, or `tokens = { file = \"consumer-tokens\" }`",
        ));
    }
}

fn is_named_by_envoy(config: &WholeConfig) -> bool {
    let mut rules = config.server().into_iter().flat_map(|server| &server.descriptors);
    rules.any(
        |rule| matches!(&rule.target, DescriptorTarget::Policy { policy, .. } if policy == CONSUMERS_POLICY),
    )
}

/// The limits of consumers in this hour.
struct InForce {
    records: Arc<dyn Records>,
    defaults: Amounts,
    hour: Hour,
}

/// Checks the records of one consumer, or whether any consumer is limited.
pub(super) async fn look_at_records(
    config: &ConsumersConfig,
    consumer: Option<&ConsumerId>,
    now: Timestamp,
    findings: &mut Findings,
) {
    // Switched off, records limit no consumer.
    let Some(defaults) = Amounts::new(config.defaults).ok().filter(|_| config.enabled) else { return };
    findings.checked(format!("records {}", config.records));
    let found = match open(&config.records) {
        Ok(None) => nothing_kept(consumer, &defaults),
        Ok(Some(records)) => {
            let in_force = InForce { records, defaults, hour: Hour::of(now) };
            match consumer {
                Some(consumer) => in_force.look_at_one(consumer).await,
                None => in_force.look_at_all(CHECKED_MAX).await,
            }
        }
        Err(error) => Err(error),
    };
    match found {
        Ok(found) => findings.findings.extend(found),
        Err(error) => findings.add(Finding::problem(
            "records-unreachable",
            format!("cannot read the consumer records: {error}"),
            "the limits of consumers are unknown; meanwhile `when_store_fails` in [consumers] applies",
            "check that `records` in [consumers] is right, exists, and is readable by this user",
        )),
    }
}

/// Opens the records if they exist: a check must not create a file.
fn open(url: &RecordsUrl) -> Result<Option<Arc<dyn Records>>, RecordsError> {
    let is_there = |path: &Path| path.metadata().is_ok_and(|file| file.len() > 0);
    match url {
        RecordsUrl::Memory => Ok(None),
        RecordsUrl::Sqlite(path) if !is_there(path) => Ok(None),
        _ => open_records(&url.connection_url()?).map(Some),
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
            let why = "all of its calls are rejected, so nothing is counted";
            let fix = "PUT /obp/v6.0.0/management/consumers/ID/blocked, if not intended";
            return Ok(Some(Finding::note(
                "consumer-blocked",
                format!("consumer {consumer} is blocked"),
                why,
                fix,
            )));
        }
        if !active.considered.is_empty() {
            let why = "its records for this hour have no positive amount; -1 and 0 mean unlimited";
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
        let dates: Vec<String> = dates.take(NAMED_MAX).collect();
        let which = match dates.is_empty() {
            true => "it has no record".to_owned(),
            false => {
                format!("none of its records is valid in the UTC hour {}: {}", self.hour, dates.join(", "))
            }
        };
        Ok(Some(no_record(consumer, active.limits.is_unlimited(), &which)))
    }

    /// Checks whether any consumer is limited: page by page, up to `most` consumers.
    async fn look_at_all(&self, most: usize) -> Result<Option<Finding>, RecordsError> {
        if !CallLimits::sum([&self.defaults]).is_unlimited() {
            return Ok(None);
        }
        let (mut last, mut checked) = (None, 0);
        while checked < most {
            let page = self.records.consumers(last.as_ref(), PAGE_MAX.min(most - checked)).await?;
            for consumer in &page {
                if self.is_limited(consumer).await? {
                    return Ok(None);
                }
            }
            checked += page.len();
            last = page.into_iter().next_back();
            if last.is_none() {
                return Ok(Some(no_records()));
            }
        }
        Ok(Some(no_records_of(&format!("none of the first {checked} consumers"))))
    }

    async fn is_limited(&self, consumer: &ConsumerId) -> Result<bool, RecordsError> {
        let kept = self.records.consumer(consumer).await?;
        let active = Active::of(&kept.records, self.hour, &self.defaults, kept.blocked);
        Ok(active.blocked || !active.limits.is_unlimited())
    }
}

fn no_record(consumer: &ConsumerId, unlimited: bool, which: &str) -> Finding {
    let what = format!("no record limits consumer {consumer}: {which}");
    if unlimited {
        let why = "the defaults are unlimited, so it is not limited at all";
        return Finding::problem("no-record", what, why, MAKE_ONE);
    }
    let why = "the defaults in [consumers] apply";
    Finding::note("no-record", what, why, "create a record if it needs its own limits")
}

fn no_records() -> Finding {
    no_records_of("no consumer")
}

fn no_records_of(whom: &str) -> Finding {
    Finding::problem(
        "no-records",
        format!("{whom} has a limiting record now, and the defaults are unlimited"),
        "consumers are not limited at all; only anonymous callers are",
        MAKE_ONE,
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use tollway_consumers::{Draft, Scope, SqliteRecords, Validity, read_date};

    async fn record(records: &dyn Records, consumer: &str, per_minute: i64) {
        let date = |text| read_date(text).unwrap();
        let draft = Draft {
            consumer: ConsumerId::new(consumer).unwrap(),
            scope: Scope::default(),
            validity: Validity::new(date("2020-01-01T00:00:00Z"), date("2099-01-01T00:00:00Z")).unwrap(),
            amounts: Amounts::new([-1, per_minute, -1, -1, -1, -1]).unwrap(),
        };
        records.create(draft).await.unwrap();
    }

    /// The only limited consumer can be on the second page, or beyond the maximum.
    #[tokio::test]
    async fn all_consumers_are_checked_up_to_the_maximum() {
        let records: Arc<dyn Records> = Arc::new(SqliteRecords::open("sqlite::memory:").unwrap());
        for number in 0..=PAGE_MAX {
            record(&*records, &format!("c{number}"), -1).await;
        }
        let hour = "2026-06-01-12".parse().unwrap();
        let in_force = InForce { records: Arc::clone(&records), defaults: Amounts::NONE, hour };
        let all = in_force.look_at_all(CHECKED_MAX).await.unwrap().unwrap();
        assert!(all.what.starts_with("no consumer has"), "{}", all.what);
        record(&*records, "z", 100).await;
        assert!(in_force.look_at_all(CHECKED_MAX).await.unwrap().is_none());
        let some = in_force.look_at_all(PAGE_MAX + 1).await.unwrap().unwrap();
        assert!(some.what.starts_with("none of the first 1001 consumers has"), "{}", some.what);
    }
}
