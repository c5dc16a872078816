//! A vendor that refuses although we kept to its limit.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollway::Limiter;
use tollway::incident::{FILE_INCIDENTS_MAX, Incident, IncidentFile, IncidentSink};
use tollway::metrics::prometheus_text;

/// G11: the record has the time, the state of the bucket, the calls in flight and what was acquired last.
#[tokio::test]
async fn a_vendor_refusal_is_kept_with_its_evidence() {
    let limits = ["rpm: 5 / minute bucket", "tpm: 250k tokens / minute bucket"];
    let limiter = Limiter::builder().policy("gemini", limits).unwrap().api_policy("gemini").unwrap().build();
    let done = limiter.take("gemini").cost("tokens", 100).await.unwrap();
    drop(done);
    let other = limiter.take("gemini").cost("tokens", 2_000).await.unwrap();
    let refused = limiter.take("gemini").cost("tokens", 3_750).await.unwrap();
    let said = "429 RESOURCE_EXHAUSTED ".repeat(100);
    let incidents = refused.refused_by_vendor(&said).await;
    assert_eq!(incidents, limiter.incidents());
    let incident = &incidents[0];
    assert_eq!((incident.policy.as_str(), incident.in_flight, incident.degraded), ("gemini", 2, false));
    assert!(incident.said.starts_with("429 RESOURCE_EXHAUSTED") && incident.said.len() == 500);
    assert_eq!((incident.limits[0].name.as_str(), incident.limits[0].used), ("rpm", 3));
    assert!((5_800..=5_850).contains(&incident.limits[1].used), "{:?}", incident.limits[1]);
    let tokens: Vec<u64> = incident.recent.iter().map(|one| one.cost[1].1).collect();
    assert_eq!(tokens, [100, 2_000, 3_750]);
    assert_eq!(incident.recent[2].permit, refused.id());
    assert!(incident.at >= incident.recent[2].granted_at);
    drop((other, refused));
    let alone = limiter.take("gemini").cost("tokens", 1).await.unwrap();
    assert_eq!(alone.refused_by_vendor("429").await[0].in_flight, 1);
}

#[tokio::test]
async fn incidents_and_acquisitions_are_bounded() {
    let limiter =
        Limiter::builder().policy("busy", ["100k / minute"]).unwrap().api_policy("busy").unwrap().build();
    for number in 0..300 {
        let permit = limiter.take("busy").await.unwrap();
        let incident = permit.refused_by_vendor(&number.to_string()).await.remove(0);
        assert_eq!(incident.recent.last().unwrap().permit, permit.id());
        assert!(incident.recent.len() <= 64);
    }
    let kept = limiter.incidents();
    assert_eq!((kept.len(), kept[0].said.as_str(), kept[127].said.as_str()), (128, "172", "299"));
}

/// A limiter of a config file in this folder.
async fn limiter_in(folder: &Path, incidents: &str) -> Limiter {
    let path = folder.join("tollway.toml");
    let policy = "policies.gemini.limits = ['5k requests / minute']\nstore.url = 'file:state'\n";
    std::fs::write(&path, format!("{policy}{incidents}")).unwrap();
    Limiter::from_config(path).await.unwrap()
}

async fn refuse(limiter: &Limiter, said: &str) -> Incident {
    let permit = limiter.take("gemini").subject("team-a").cost("requests", 2).await.unwrap();
    permit.refused_by_vendor(said).await.remove(0)
}

/// G11: kept across restarts, beside the state file, and only for its owner.
#[tokio::test]
async fn incidents_survive_their_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = IncidentFile::at(folder.path().join("state.incidents"));
    let limiter = limiter_in(folder.path(), "apis.gemini = { policy = 'gemini' }").await;
    assert!(file.read().unwrap().is_empty() && !file.path().exists(), "no incident, no file");
    let first = refuse(&limiter, "429\n\"one\"").await;
    limiter.close().await.unwrap();
    assert_eq!(file.read().unwrap(), std::slice::from_ref(&first));
    drop(limiter);
    let limiter = limiter_in(folder.path(), "").await;
    let second = refuse(&limiter, "two").await;
    drop(limiter);
    assert_eq!(file.read().unwrap(), [first, second]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.path().metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

/// Another user's link does not choose the file that incidents are written to.
#[tokio::test]
async fn incidents_are_not_written_through_a_link() {
    for link in ["state.incidents", "state.incidents.lock"] {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        std::os::unix::fs::symlink(&target, folder.path().join(link)).unwrap();
        let limiter = limiter_in(folder.path(), "").await;
        refuse(&limiter, "one").await;
        limiter.close().await.unwrap();
        assert!(!target.exists(), "{link}");
    }
}

/// What a killed process left behind costs its own line, and no other.
#[tokio::test]
async fn torn_lines_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let limiter = limiter_in(folder.path(), "incidents.file = 'kept/incidents.jsonl'").await;
    let file = IncidentFile::at(folder.path().join("kept/incidents.jsonl"));
    let first = refuse(&limiter, "one").await;
    limiter.close().await.unwrap();
    let mut torn = std::fs::read(file.path()).unwrap();
    torn.extend_from_slice(br#"{"id":"123","at":"20"#);
    std::fs::write(file.path(), torn).unwrap();
    assert_eq!(file.read().unwrap(), std::slice::from_ref(&first));
    let second = refuse(&limiter, "two").await;
    limiter.close().await.unwrap();
    assert_eq!(file.read().unwrap(), [first, second]);
}

/// By number and by bytes; the newest stay.
#[tokio::test]
async fn file_of_incidents_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let limiter = limiter_in(folder.path(), "").await;
    let file = IncidentFile::at(folder.path().join("state.incidents"));
    refuse(&limiter, "first").await;
    limiter.close().await.unwrap();
    let line = std::fs::read_to_string(file.path()).unwrap();
    std::fs::write(file.path(), line.repeat(FILE_INCIDENTS_MAX)).unwrap();
    refuse(&limiter, "newest").await;
    limiter.close().await.unwrap();
    let kept = file.read().unwrap();
    assert_eq!((kept.len(), kept.last().unwrap().said.as_str()), (FILE_INCIDENTS_MAX / 4 * 3, "newest"));

    let long = line.replace("first", &"x".repeat(20_000));
    std::fs::write(file.path(), long.repeat(450)).unwrap();
    refuse(&limiter, "newest").await;
    limiter.close().await.unwrap();
    assert!(file.path().metadata().unwrap().len() < 8 << 20);
    assert_eq!(file.read().unwrap().last().unwrap().said, "newest");
}

/// A sink that is full.
struct Full(AtomicU64);

impl IncidentSink for Full {
    fn name(&self) -> &'static str {
        "full"
    }

    fn send(&self, _: &Arc<Incident>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn dropped(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn flush(&self, within: Duration) -> bool {
        within.is_zero()
    }
}

#[tokio::test]
async fn sinks_get_every_incident_and_report_what_they_drop() {
    let limiter = Limiter::builder().policy("gemini", ["5 / minute"]).unwrap().metrics().build();
    assert!(limiter.add_incident_sink(Arc::new(Full(AtomicU64::new(0)))));
    assert!(!limiter.add_incident_sink(Arc::new(Full(AtomicU64::new(0)))), "one of each name");
    refuse(&limiter, "429").await;
    let text = prometheus_text(&limiter.samples().await);
    assert!(text.contains("tollway_incidents_dropped_total{sink=\"full\"} 1"), "{text}");
}
