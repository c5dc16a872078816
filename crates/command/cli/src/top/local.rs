//! A dashboard in this process, over the config's store: nothing runs that could be asked.

use tokio::sync::mpsc;
use tollway::{Limiter, StoreUrl};
use tollway_dashboard::Dashboard;
use tollway_top::{EventReader, Update};

use crate::context::Context;
use crate::failure::Failure;

/// Updates that were not drawn yet: one a second comes.
const UPDATES_MAX: usize = 4;

/// The config's policies over its store.
pub(super) struct Local {
    limiter: Limiter,
    store: StoreUrl,
}

impl Local {
    pub(super) fn new(context: &Context) -> Result<Self, Failure> {
        let config = context.config_or_limits()?;
        let store = context.store(&config)?;
        Ok(Self { limiter: context.counting_limiter(&config)?, store })
    }

    pub(super) fn follow(&self) -> mpsc::Receiver<Update> {
        let (sender, receiver) = mpsc::channel(UPDATES_MAX);
        let builder = Dashboard::builder(&self.limiter, "top").store(&self.store);
        let dashboard = builder.of_store().build();
        tokio::spawn(async move {
            let Some(mut events) = dashboard.events() else { return };
            let mut reader = EventReader::default();
            let read = async {
                while let Some(bytes) = events.next().await {
                    // They are our own events.
                    for event in reader.read(&bytes).unwrap_or_default() {
                        if sender.send(Update::Event(event)).await.is_err() {
                            return;
                        }
                    }
                }
            };
            tokio::select! {
                () = dashboard.run() => {}
                () = read => {}
            }
        });
        receiver
    }
}
