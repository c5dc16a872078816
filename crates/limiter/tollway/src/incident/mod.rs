//! Incidents: a vendor refused a call that was within its limit. The state at that moment is kept for the investigation.
//!
//! They are kept in memory, and by a limiter of a config file also in a file that all processes of the machine share
//! ([`IncidentFile`]). Other destinations are [`IncidentSink`]s; the crate `tollway-webhook` has one.
//!
//! Where to look: `json` is the shape of an incident outside the process, `file` the file, `file_sink` writes it in the
//! background, `sink` what a destination must do.

mod file;
mod file_sink;
mod json;
pub(crate) mod recent_grants;
mod sink;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tollway_core::{Fingerprint, Limit, Name, PermitId, Subject, Timestamp};

use crate::config::IncidentsConfig;
pub use crate::incident::recent_grants::Acquisition;
use crate::incident::recent_grants::RecentGrants;
use crate::policy::usage::usage;
use crate::take::bound_charges::BoundCharges;
use crate::take::bound_policy::BoundPolicy;
use crate::{LimitUsage, Limiter, Permit};
pub use file::{FILE_INCIDENTS_MAX, IncidentFile};
use file_sink::FileSink;
pub use sink::IncidentSink;
use sink::Sinks;

/// How many incidents are kept in memory; the oldest go first.
const INCIDENTS_MAX: usize = 128;

/// The longest text of a vendor's that is kept, in characters.
const SAID_MAX: usize = 500;

/// A vendor refused a call that had a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Its id: 16 hexadecimal digits.
    pub id: String,
    /// When, by the local clock.
    pub at: Timestamp,
    /// The policy that granted the call.
    pub policy: Name,
    /// The subject.
    pub subject: Subject,
    /// What the vendor said.
    pub said: String,
    /// The id of the process.
    pub process: u32,
    /// What the meters showed right after; empty if the store did not answer.
    pub limits: Vec<LimitUsage>,
    /// How many permits of the policy this process held, that of the call among them.
    pub in_flight: u64,
    /// What this process was granted last, the oldest first.
    pub recent: Vec<Acquisition>,
    /// Whether the call was granted without the store.
    pub degraded: bool,
}

/// The incidents of a limiter.
#[derive(Default)]
pub(crate) struct Incidents {
    kept: Mutex<VecDeque<Arc<Incident>>>,
    sinks: Sinks,
    config: IncidentsConfig,
}

impl Incidents {
    /// With the config's settings, and the file that they name.
    pub(crate) fn new(config: IncidentsConfig, file: Option<IncidentFile>) -> Self {
        let incidents = Self { config, ..Self::default() };
        if let Some(file) = file {
            incidents.sinks.add(Arc::new(FileSink::new(file)));
        }
        incidents
    }

    /// The settings since the start.
    pub(crate) fn config(&self) -> &IncidentsConfig {
        &self.config
    }

    pub(crate) fn sinks(&self) -> &Sinks {
        &self.sinks
    }

    fn keep(&self, incident: Incident) {
        let incident = Arc::new(incident);
        self.sinks.send(&incident);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= INCIDENTS_MAX {
            kept.pop_front();
        }
        kept.push_back(incident);
    }

    /// How many are kept, and when the last one was.
    fn count_and_last(&self) -> (usize, Option<Timestamp>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.len(), kept.back().map(|incident| incident.at))
    }

    fn all(&self) -> Vec<Incident> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().map(|incident| Incident::clone(incident)).collect()
    }
}

impl Limiter {
    /// The last incidents of this process, the oldest first: calls that a vendor refused although they had a permit.
    pub fn incidents(&self) -> Vec<Incident> {
        self.registry().state().incidents.all()
    }

    /// How many incidents of this process are kept, and when the last one was.
    pub fn incidents_count_and_last(&self) -> (usize, Option<Timestamp>) {
        self.registry().state().incidents.count_and_last()
    }

    /// Sends incidents from now on to this destination, too. False if there is one of its name already.
    pub fn add_incident_sink(&self, sink: Arc<dyn IncidentSink>) -> bool {
        self.registry().state().incidents.sinks().add(sink)
    }

    /// Where incidents go, as the config said at the start.
    pub fn incidents_config(&self) -> &IncidentsConfig {
        self.registry().state().incidents.config()
    }
}

impl Permit {
    /// The vendor refused this call, with a 429 or in other words: that should not happen, so it is raised as an error in
    /// the log (`VendorRefused`) and kept with what is known at this moment ([`Limiter::incidents`]).
    ///
    /// The permit stays as it is; its units are spent, as the vendor may have counted the call.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let limiter = tollway::Limiter::builder().policy("gemini", ["5 / minute"])?.build();
    /// let permit = limiter.take("gemini").await?;
    /// // ... the vendor answers 429 ...
    /// let incident = &permit.refused_by_vendor("429 Too Many Requests").await[0];
    /// assert_eq!(incident.limits[0].used, 1);
    /// assert_eq!(limiter.incidents().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn refused_by_vendor(&self, said: &str) -> Vec<Incident> {
        let mut incidents = Vec::with_capacity(self.charges().charges().len());
        for (charge, bound) in self.charges().iter() {
            let incident = incident(self, &charge.subject, bound, said).await;
            let Incident { policy, said, in_flight, degraded, .. } = &incident;
            tracing::error!(event = "VendorRefused", %policy, said, in_flight, degraded, "a vendor refused a call that had a permit");
            if let Some(counts) = bound.counts() {
                counts.incident();
            }
            bound.state.incidents.keep(incident.clone());
            incidents.push(incident);
        }
        incidents
    }
}

async fn incident(permit: &Permit, subject: &Subject, bound: &Arc<BoundPolicy>, said: &str) -> Incident {
    let (at, policy) = (bound.state.clock.now(), bound.policy.name().clone());
    let recent = bound.recent.as_deref();
    let in_flight = recent.map_or(1, RecentGrants::in_flight);
    let recent = recent.map(RecentGrants::recent).unwrap_or_default();
    let usage = usage(Ok(BoundCharges::shared(Arc::clone(bound))));
    let mut limits = usage.subject(subject.as_str()).await.map(|usage| usage.limits).unwrap_or_default();
    // A rate that adapts is our own pace, and no limit of the vendor's.
    let paces: Vec<&Name> =
        bound.policy.limits().iter().filter(|limit| limit.is_adaptive()).map(Limit::name).collect();
    limits.retain(|limit| !paces.contains(&&limit.name));
    Incident {
        id: id(at, &policy, permit.id()),
        at,
        policy,
        subject: subject.clone(),
        said: said.chars().take(SAID_MAX).collect(),
        process: std::process::id(),
        limits,
        in_flight,
        recent,
        degraded: permit.degraded(),
    }
}

/// A permit is unique, but its call may be refused more than once and have several policies.
fn id(at: Timestamp, policy: &Name, permit: PermitId) -> String {
    let parts = Fingerprint::new().number(at.as_micros()).text(policy.as_str()).text(&permit.to_string());
    format!("{:016x}", parts.finish())
}
