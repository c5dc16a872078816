//! Checks that another config uses the same store and the same records.

use std::path::Path;

use tollway::StoreUrl;
use tollway::config::SharedBy;
use tollway_consumers::{ConsumersConfig, RecordsUrl};

use super::finding::{Finding, Findings};
use super::store_url::{FullStoreUrl, canonical, without_credentials};
use crate::context::WholeConfig;

const WHY: &str = "the processes count separately: a caller can use its limit once with each";

pub(super) async fn look_at(
    config: &WholeConfig,
    store: Option<&StoreUrl>,
    written: &FullStoreUrl,
    other: &Path,
    findings: &mut Findings,
) {
    findings.checked(format!("config {}", other.display()));
    let theirs = match WholeConfig::load(other) {
        Ok(theirs) => theirs,
        Err(error) => {
            let what = format!("cannot read the other config: {error}");
            let fix = "give the path of the other config, readable by this user";
            return findings.add(Finding::problem("config-wrong", what, "its store is unknown", fix));
        }
    };
    let their_store = theirs.limits().store();
    if let Some(part) = difference(store, written, their_store, &FullStoreUrl::of(their_store)).await {
        let [ours, theirs] = [store, their_store].map(|store| store.cloned().unwrap_or_default().to_string());
        findings.add(different(part, &ours, &theirs, &other.display().to_string()));
    }
    if let (Some(ours), Some(theirs)) = (config.consumers(), theirs.consumers())
        && !same_records(ours, theirs)
    {
        findings.add(Finding::problem(
            "different-records",
            format!("different consumer records: {} here, {} there", ours.records, theirs.records),
            "a record created by one process is unknown to the other",
            "use the same `records` in both configs; across machines, use Postgres: postgres://HOST/DATABASE",
        ));
    }
}

/// The finding that two stores differ.
pub(super) fn different(part: &str, ours: &str, theirs: &str, whose: &str) -> Finding {
    Finding::problem(
        "different-stores",
        format!("different stores: {ours} here, {theirs} for {whose} (different {part})"),
        WHY,
        "use the same [store] url everywhere, with the same database, prefix and layout",
    )
}

/// The part in which two stores differ, if they do. Memory is never shared.
async fn difference(
    ours: Option<&StoreUrl>,
    written: &FullStoreUrl,
    theirs: Option<&StoreUrl>,
    their_written: &FullStoreUrl,
) -> Option<&'static str> {
    let same_kind = |(ours, theirs): &(&StoreUrl, &StoreUrl)| {
        ours.kind() == theirs.kind() && ours.kind().shared_by != SharedBy::Process
    };
    let Some((ours, theirs)) = ours.zip(theirs).filter(same_kind) else {
        let kind = |store: Option<&StoreUrl>| store.map(StoreUrl::kind);
        return Some(if kind(ours) == kind(theirs) { "process" } else { "kind" });
    };
    match (ours, theirs) {
        (StoreUrl::File(ours), StoreUrl::File(theirs)) => {
            (canonical(ours) != canonical(theirs)).then_some("file")
        }
        (StoreUrl::Redis(_), _) => redis(written, their_written).await,
        _ => (written.without_credentials() != their_written.without_credentials()).then_some("place"),
    }
}

#[cfg(feature = "redis")]
async fn redis(ours: &FullStoreUrl, theirs: &FullStoreUrl) -> Option<&'static str> {
    super::redis::same_store(ours.redis()?, theirs.redis()?).await
}

#[cfg(not(feature = "redis"))]
async fn redis(_: &FullStoreUrl, _: &FullStoreUrl) -> Option<&'static str> {
    None
}

fn same_records(ours: &ConsumersConfig, theirs: &ConsumersConfig) -> bool {
    match (&ours.records, &theirs.records) {
        (RecordsUrl::Sqlite(ours), RecordsUrl::Sqlite(theirs)) => canonical(ours) == canonical(theirs),
        (RecordsUrl::Postgres(_), RecordsUrl::Postgres(_)) => {
            without_credentials(&ours.records.expose()) == without_credentials(&theirs.records.expose())
        }
        _ => false,
    }
}
