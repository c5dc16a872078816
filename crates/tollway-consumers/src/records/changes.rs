//! The watch that moves when records change.

use tokio::sync::watch;

use super::Generation;

/// Tells all who watch that something has changed, here or elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Changes(watch::Sender<Generation>);

impl Changes {
    /// Nothing has changed yet.
    pub(crate) fn new(followed: bool) -> Self {
        Self(watch::Sender::new(Generation { number: 0, followed }))
    }

    /// A record was changed.
    pub(crate) fn moved(&self) {
        self.0.send_modify(|generation| generation.number += 1);
    }

    /// Changes by others can be followed from now on, or no longer. Either way some may have been missed.
    pub(crate) fn set_followed(&self, followed: bool) {
        self.0.send_modify(|generation| {
            let number = generation.number + 1;
            *generation = Generation { number, followed };
        });
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Generation> {
        self.0.subscribe()
    }

    /// Whether anybody wants to know.
    pub(crate) fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Whether they are being followed.
    pub(crate) fn is_followed(&self) -> bool {
        self.0.borrow().followed
    }
}
