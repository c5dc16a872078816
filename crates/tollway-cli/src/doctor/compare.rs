//! Whether another config's processes count in the same store, by the same records.

use std::path::Path;

use tollway::StoreUrl;
use tollway::config::SharedBy;
use tollway_consumers::{ConsumersConfig, RecordsUrl};

use super::finding::{Finding, Findings};
use super::place::{Written, place, real};
use crate::context::WholeConfig;

const WHY: &str = "each process counts for itself: a caller may use its limit once with each of them";

pub(super) async fn look_at(
    config: &WholeConfig,
    store: Option<&StoreUrl>,
    written: &Written,
    other: &Path,
    findings: &mut Findings,
) {
    findings.looked_at(format!("config {}", other.display()));
    let theirs = match WholeConfig::load(other) {
        Ok(theirs) => theirs,
        Err(error) => {
            let what = format!("the config to compare with cannot be read: {error}");
            let fix = "name the config of the other process, as this user may read it";
            return findings.add(Finding::problem(
                "config-wrong",
                what,
                "nobody can tell where it counts",
                fix,
            ));
        }
    };
    let their_store = theirs.limits().store();
    if let Some(part) = difference(store, written, their_store, &Written::of(their_store)).await {
        let [ours, theirs] = [store, their_store].map(|store| store.cloned().unwrap_or_default().to_string());
        findings.add(different(part, &ours, &theirs, &other.display().to_string()));
    }
    if let (Some(ours), Some(theirs)) = (config.consumers(), theirs.consumers())
        && !same_records(ours, theirs)
    {
        findings.add(Finding::problem(
            "different-records",
            format!("the records of consumers are different ones: {} here, {} there", ours.records, theirs.records),
            "a record that is made with one process is not known to the other, which limits by its own",
            "name the same `records` in both configs; across machines that is Postgres: postgres://HOST/DATABASE",
        ));
    }
}

/// Two stores, and what they differ in.
pub(super) fn different(part: &str, ours: &str, theirs: &str, whose: &str) -> Finding {
    Finding::problem(
        "different-stores",
        format!("the store is another one: {ours} here, {theirs} for {whose} (another {part})"),
        WHY,
        "give all of them the same [store] url, with the same database, prefix and layout",
    )
}

/// What two stores differ in, if they do. Memory is never shared.
async fn difference(
    ours: Option<&StoreUrl>,
    written: &Written,
    theirs: Option<&StoreUrl>,
    their_written: &Written,
) -> Option<&'static str> {
    let same_kind = |(ours, theirs): &(&StoreUrl, &StoreUrl)| {
        ours.kind() == theirs.kind() && ours.kind().shared_by != SharedBy::Process
    };
    let Some((ours, theirs)) = ours.zip(theirs).filter(same_kind) else { return Some("kind") };
    match (ours, theirs) {
        (StoreUrl::File(ours), StoreUrl::File(theirs)) => (real(ours) != real(theirs)).then_some("file"),
        (StoreUrl::Redis(_), _) => redis(written, their_written).await,
        _ => (written.place() != their_written.place()).then_some("place"),
    }
}

#[cfg(feature = "redis")]
async fn redis(ours: &Written, theirs: &Written) -> Option<&'static str> {
    super::redis::same_store(ours.redis()?, theirs.redis()?).await
}

#[cfg(not(feature = "redis"))]
async fn redis(_: &Written, _: &Written) -> Option<&'static str> {
    None
}

fn same_records(ours: &ConsumersConfig, theirs: &ConsumersConfig) -> bool {
    match (&ours.records, &theirs.records) {
        (RecordsUrl::Sqlite(ours), RecordsUrl::Sqlite(theirs)) => real(ours) == real(theirs),
        (RecordsUrl::Postgres(_), RecordsUrl::Postgres(_)) => {
            place(&ours.records.expose()) == place(&theirs.records.expose())
        }
        _ => false,
    }
}
