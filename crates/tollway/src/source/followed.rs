//! The sources that a limiter follows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tollway_core::Name;

use super::follow::follow;
use super::{PolicySource, SourceStatus, Wanted};
use crate::registry::Registry;
use crate::settings::SetLimitError;
use crate::{Limiter, Pending};

/// The sources that a limiter follows, one for each policy that has one.
#[derive(Default)]
pub(crate) struct Followed {
    by_policy: Mutex<BTreeMap<Name, Following>>,
}

/// One that is read in the background until this is dropped.
struct Following {
    configured: Option<PolicySource>,
    status: watch::Receiver<SourceStatus>,
    task: Option<AbortHandle>,
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Followed {
    /// Begins to follow a source.
    pub(crate) fn begin(&self, wanted: Wanted, registry: &Arc<Registry>) {
        let (sender, status) = watch::channel(SourceStatus::new(&wanted));
        let (policy, configured) = (wanted.policy.clone(), wanted.configured.clone());
        let reading = follow(wanted, Arc::downgrade(registry), sender);
        let task = registry.state().timers.spawn_own(reading);
        self.by_policy().insert(policy, Following { configured, status, task });
    }

    /// The config file was read again: ends what it no longer names, and begins what it names now. Those that a program
    /// brought stay.
    pub(crate) fn replace(&self, configured: &[PolicySource], registry: &Arc<Registry>) {
        let ended: Vec<Name> = {
            let mut followed = self.by_policy();
            let stays = |following: &Following| match &following.configured {
                Some(known) => configured.contains(known),
                None => true,
            };
            let ended = followed.iter().filter(|(_, following)| !stays(following));
            let ended: Vec<Name> = ended.map(|(policy, _)| policy.clone()).collect();
            followed.retain(|_, following| stays(following));
            ended
        };
        ended.iter().for_each(|policy| registry.set_sourced(policy, &[]));
        for source in configured {
            if !self.by_policy().contains_key(&source.policy) {
                self.begin(Wanted::configured(source), registry);
            }
        }
    }

    fn statuses(&self) -> Vec<watch::Receiver<SourceStatus>> {
        self.by_policy().values().map(|following| following.status.clone()).collect()
    }

    fn by_policy(&self) -> MutexGuard<'_, BTreeMap<Name, Following>> {
        self.by_policy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limiter {
    /// How the sources of limits have been doing, by policy.
    pub fn sources(&self) -> Vec<SourceStatus> {
        self.followed().statuses().iter().map(|status| status.borrow().clone()).collect()
    }

    /// Follows these sources from now on, instead of those that a config named before: for programs that read their config
    /// again by themselves. Those that a program brought stay.
    pub fn replace_sources(&self, sources: &[PolicySource]) {
        self.followed().replace(sources, self.registry());
    }

    /// Waits until every source has been tried once, so that what it says is in force. A source that fails is no error
    /// here: it is warned of, and [`Limiter::sources`] tells.
    pub fn sources_read(&self) -> Pending<(), SetLimitError> {
        let statuses = self.followed().statuses();
        self.pending(async move {
            for mut status in statuses {
                // One that has ended will not be read.
                let _ = status.wait_for(|status| status.tries > 0).await;
            }
            Ok(())
        })
    }
}
