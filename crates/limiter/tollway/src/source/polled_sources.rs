//! The sources that a limiter follows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tollway_core::Name;

use super::poll::poll_source;
use super::{PolicySource, SourceStatus, SourceToPoll};
use crate::policy::registry::Registry;
use crate::policy::settings::SetLimitError;
use crate::{Limiter, Pending};

/// The sources that a limiter follows, one for each policy that has one.
#[derive(Default)]
pub(crate) struct PolledSources {
    by_policy: Mutex<BTreeMap<Name, SourcePoller>>,
}

/// One that is read in the background until this is dropped.
struct SourcePoller {
    configured: Option<PolicySource>,
    status: watch::Receiver<SourceStatus>,
    task: Option<AbortHandle>,
}

impl Drop for SourcePoller {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl PolledSources {
    /// Begins to poll a source.
    pub(crate) fn begin(&self, source_to_poll: SourceToPoll, registry: &Arc<Registry>) {
        let (sender, status) = watch::channel(SourceStatus::new(&source_to_poll));
        let (policy, configured) = (source_to_poll.policy.clone(), source_to_poll.configured.clone());
        let reading = poll_source(source_to_poll, Arc::downgrade(registry), sender);
        let task = registry.state().timers.spawn_own(reading);
        self.by_policy().insert(policy, SourcePoller { configured, status, task });
    }

    /// The config file was read again: ends what it no longer names, and begins what it names now. Those that a program
    /// brought stay.
    pub(crate) fn replace(&self, configured: &[PolicySource], registry: &Arc<Registry>) {
        let ended: Vec<Name> = {
            let mut polled_sources = self.by_policy();
            let named: BTreeMap<&Name, &PolicySource> =
                configured.iter().map(|source| (source.policy(), source)).collect();
            let stays = |poller: &SourcePoller| match &poller.configured {
                Some(known) => named.get(known.policy()) == Some(&known),
                None => true,
            };
            let ended = polled_sources.iter().filter(|(_, poller)| !stays(poller));
            let ended: Vec<Name> = ended.map(|(policy, _)| policy.clone()).collect();
            polled_sources.retain(|_, poller| stays(poller));
            ended
        };
        ended.iter().for_each(|policy| registry.set_sourced(policy, &[]));
        for source in configured {
            if !self.by_policy().contains_key(&source.policy) {
                self.begin(SourceToPoll::configured(source), registry);
            }
        }
    }

    /// How the source of a policy has been doing, if it has one.
    pub(super) fn status_of(&self, policy: &str) -> Option<SourceStatus> {
        Some(self.by_policy().get(policy)?.status.borrow().clone())
    }

    fn statuses(&self) -> Vec<watch::Receiver<SourceStatus>> {
        self.by_policy().values().map(|poller| poller.status.clone()).collect()
    }

    fn by_policy(&self) -> MutexGuard<'_, BTreeMap<Name, SourcePoller>> {
        self.by_policy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limiter {
    /// How the sources of limits have been doing, by policy.
    pub fn sources(&self) -> Vec<SourceStatus> {
        self.polled_sources().statuses().iter().map(|status| status.borrow().clone()).collect()
    }

    /// Follows these sources from now on, instead of those that a config named before: for programs that read their config
    /// again by themselves. Those that a program brought stay.
    pub fn replace_sources(&self, sources: &[PolicySource]) {
        self.polled_sources().replace(sources, self.registry());
    }

    /// Waits until every source has been tried once and its amounts are in force. A source that fails is not an error here:
    /// it is logged, and [`Limiter::sources`] reports it.
    pub fn sources_read(&self) -> Pending<(), SetLimitError> {
        let statuses = self.polled_sources().statuses();
        self.pending(async move {
            for mut status in statuses {
                // One that has ended will not be read.
                let _ = status.wait_for(|status| status.tries > 0).await;
            }
            Ok(())
        })
    }
}
