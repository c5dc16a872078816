//! Notifies watchers when records change.

use tokio::sync::watch;

use super::Generation;

/// Notifies watchers of every change, by this process or another.
#[derive(Clone, Debug)]
pub(crate) struct Changes(watch::Sender<Generation>);

impl Changes {
    /// Starts without changes.
    pub(crate) fn new(followed: bool) -> Self {
        Self(watch::Sender::new(Generation { number: 0, followed }))
    }

    /// A record was changed.
    pub(crate) fn moved(&self) {
        self.0.send_modify(|generation| generation.number += 1);
    }

    /// Notifications of changes by other processes start or stop. Either way some may have been missed.
    pub(crate) fn set_followed(&self, followed: bool) {
        self.0.send_modify(|generation| {
            let number = generation.number + 1;
            *generation = Generation { number, followed };
        });
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Generation> {
        self.0.subscribe()
    }

    /// Whether there are watchers.
    pub(crate) fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Whether changes by other processes are being followed.
    pub(crate) fn is_followed(&self) -> bool {
        self.0.borrow().followed
    }
}
