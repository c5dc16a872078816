//! Where incidents go besides the memory of the process: a file, a webhook.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Incident;

/// How long the end of a limiter waits for each sink.
const FLUSHES_WITHIN: Duration = Duration::from_secs(2);

/// A destination of incidents, such as a file or a webhook.
///
/// A sink has a bounded queue and works in the background: a call that a vendor refused must not wait for it.
pub trait IncidentSink: Send + Sync + 'static {
    /// Its name in metrics, such as `file` or `webhook`. A limiter has one sink of each name.
    fn name(&self) -> &'static str;

    /// Queues an incident. Never blocks. An incident for which there is no room is counted as dropped.
    fn send(&self, incident: &Arc<Incident>);

    /// How many incidents were dropped: there was no room, or they could not be delivered.
    fn dropped(&self) -> u64;

    /// Waits until everything queued is delivered or dropped, at most this long; false if something is left. Blocks its
    /// thread.
    fn flush(&self, within: Duration) -> bool;
}

/// The sinks of a limiter.
#[derive(Default)]
pub(crate) struct Sinks(Mutex<Vec<Arc<dyn IncidentSink>>>);

impl Sinks {
    /// False if there is one of that name already.
    pub(crate) fn add(&self, sink: Arc<dyn IncidentSink>) -> bool {
        let mut sinks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = sinks.iter().all(|other| other.name() != sink.name());
        if is_new {
            sinks.push(sink);
        }
        is_new
    }

    pub(crate) fn send(&self, incident: &Arc<Incident>) {
        self.all().iter().for_each(|sink| sink.send(incident));
    }

    /// The dropped incidents of each sink.
    pub(crate) fn dropped(&self) -> Vec<(&'static str, u64)> {
        self.all().iter().map(|sink| (sink.name(), sink.dropped())).collect()
    }

    /// Whether nothing is queued.
    pub(crate) fn are_idle(&self) -> bool {
        self.all().iter().all(|sink| sink.flush(Duration::ZERO))
    }

    /// Waits for the sinks, one after the other. Blocks its thread.
    pub(crate) fn flush(&self) {
        for sink in self.all() {
            if !sink.flush(FLUSHES_WITHIN) {
                tracing::warn!(sink = sink.name(), "some incidents were not delivered in time");
            }
        }
    }

    /// Copies, so that no sink runs under the lock.
    fn all(&self) -> Vec<Arc<dyn IncidentSink>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
