//! Incidents: what happened, and the state at that moment. They name subjects and what a vendor said, so they need a token.

use std::sync::Arc;

use serde_json::json;
use tollway::incident::Incident;

use super::unknown;
use crate::answer::{Answer, Problem, json};
use crate::dashboard::Shared;
use crate::handler::Asked;

/// The incidents of one answer, the newest.
const INCIDENTS_MAX: usize = 100;

pub(crate) async fn list(shared: &Arc<Shared>) -> Result<Answer, Problem> {
    let all = all(shared).await;
    let total = all.len();
    let brief = |incident: &Incident| {
        json!({
            "id": incident.id, "at": incident.at.as_millis(), "policy": incident.policy, "subject": incident.subject,
            "said": incident.said, "process": incident.process, "degraded": incident.degraded,
        })
    };
    let incidents: Vec<_> = all.iter().take(INCIDENTS_MAX).map(brief).collect();
    Ok(json(&json!({ "incidents": incidents, "total": total })))
}

pub(crate) async fn one(shared: &Arc<Shared>, asked: &Asked) -> Result<Answer, Problem> {
    let id = asked.parameter(0);
    let found = all(shared).await.into_iter().find(|incident| incident.id == id);
    found.map(|incident| json(&incident)).ok_or_else(|| unknown("incident", id))
}

/// Those of this process, and of other processes of this machine that share its file; the newest first.
async fn all(shared: &Arc<Shared>) -> Vec<Incident> {
    let mut all = shared.limiter.incidents();
    if let Some(file) = shared.incident_file() {
        let read = tokio::task::spawn_blocking(move || file.read()).await;
        if let Ok(Ok(kept)) = read {
            all.extend(kept);
        }
    }
    all.sort_by(|one, other| other.at.cmp(&one.at).then_with(|| one.id.cmp(&other.id)));
    all.dedup_by(|one, other| one.id == other.id);
    all
}
