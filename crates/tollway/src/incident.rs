//! Incidents: a vendor refused a call that was within its limit. The state at that moment is kept for the investigation.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tollway_core::{Name, Subject, Timestamp};

use crate::bound_charges::BoundCharges;
pub use crate::recent_grants::Acquisition;
use crate::recent_grants::RecentGrants;
use crate::usage::usage;
use crate::{LimitUsage, Limiter, Permit};

/// How many incidents are kept; the oldest go first.
const INCIDENTS_MAX: usize = 128;

/// The longest text of a vendor's that is kept, in characters.
const SAID_MAX: usize = 500;

/// A vendor refused a call that had a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// When, by the local clock.
    pub at: Timestamp,
    /// The policy that granted the call.
    pub policy: Name,
    /// The subject.
    pub subject: Subject,
    /// What the vendor said.
    pub said: String,
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
pub(crate) struct Incidents(Mutex<VecDeque<Incident>>);

impl Incidents {
    fn keep(&self, incident: Incident) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= INCIDENTS_MAX {
            kept.pop_front();
        }
        kept.push_back(incident);
    }

    fn all(&self) -> Vec<Incident> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Limiter {
    /// The last incidents, the oldest first: calls that a vendor refused although they had a permit.
    pub fn incidents(&self) -> Vec<Incident> {
        self.registry().state().incidents.all()
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
            let state = &bound.state;
            let recent = bound.recent.as_deref();
            let in_flight = recent.map_or(1, RecentGrants::in_flight);
            let recent = recent.map(RecentGrants::recent).unwrap_or_default();
            let (at, policy, subject) =
                (state.clock.now(), charge.policy.name().clone(), charge.subject.clone());
            let usage = usage(Ok(BoundCharges::shared(Arc::clone(bound))));
            let limits = usage.subject(subject.as_str()).await.map(|usage| usage.limits).unwrap_or_default();
            let said: String = said.chars().take(SAID_MAX).collect();
            let degraded = self.degraded();
            tracing::error!(event = "VendorRefused", %policy, said, in_flight, degraded, "a vendor refused a call that had a permit");
            let incident = Incident { at, policy, subject, said, limits, in_flight, recent, degraded };
            state.incidents.keep(incident.clone());
            incidents.push(incident);
        }
        incidents
    }
}
