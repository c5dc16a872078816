//! Limits as data: a small table that all who share the store read now and then.
//!
//! Whoever asks may run on any executor or on none, so a thread with one connection answers. It is started when
//! somebody asks for the first time: most processes of a test and many others never do.

use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tollway_core::{Fault, Retry, Setting, SettingChange, SettingsAnswer, StoreError};

use crate::options::PostgresOptions;
use crate::pool::Pool;
use crate::settings_table as table;

/// How many may ask at the same time. One more is an error, never a block.
const ASKED_MAX: usize = 64;

/// Where settings are asked for.
pub(crate) struct SettingsDesk {
    options: PostgresOptions,
    queue: OnceLock<Result<Sender<Asked>, StoreError>>,
}

enum Asked {
    Read(oneshot::Sender<Result<Vec<Setting>, StoreError>>),
    Change(SettingChange, oneshot::Sender<Result<(), StoreError>>),
}

impl SettingsDesk {
    pub(crate) fn new(options: PostgresOptions) -> Self {
        Self { options: PostgresOptions { connections: 1, ..options }, queue: OnceLock::new() }
    }

    pub(crate) fn read(&self) -> SettingsAnswer<Vec<Setting>> {
        self.ask(Asked::Read)
    }

    pub(crate) fn change(&self, change: SettingChange) -> SettingsAnswer<()> {
        self.ask(|answer| Asked::Change(change, answer))
    }

    fn ask<T: Send + 'static>(
        &self,
        asked: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Asked,
    ) -> SettingsAnswer<T> {
        let (answer, answered) = oneshot::channel();
        let queue = self.queue.get_or_init(|| start(self.options.clone())).as_ref();
        let sent = queue.map_err(Clone::clone).and_then(|queue| {
            queue
                .try_send(asked(answer))
                .map_err(|_| failed(Retry::Safe, &format!("{ASKED_MAX} requests for settings wait already")))
        });
        Box::pin(async move {
            sent?;
            answered.await.unwrap_or_else(|_| Err(failed(Retry::Unclear, "the store was closed")))
        })
    }
}

fn start(options: PostgresOptions) -> Result<Sender<Asked>, StoreError> {
    let no_thread = |error: std::io::Error| failed(Retry::Safe, &format!("no thread for settings: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
    let (queue, asked) = channel(ASKED_MAX);
    let thread = std::thread::Builder::new().name("tollway-settings".to_owned());
    thread.spawn(move || runtime.block_on(serve(options, asked))).map_err(no_thread)?;
    Ok(queue)
}

/// One after the other, until the store is dropped.
async fn serve(options: PostgresOptions, mut asked: Receiver<Asked>) {
    let pool = Pool::new(options);
    while let Some(asked) = asked.recv().await {
        // Whoever has left need not know.
        match asked {
            Asked::Read(answer) => drop(answer.send(read(&pool).await)),
            Asked::Change(change, answer) => drop(answer.send(change_one(&pool, change).await)),
        }
    }
}

async fn read(pool: &Arc<Pool>) -> Result<Vec<Setting>, StoreError> {
    let lease = pool.lease().await?;
    let settings = lease.session().within(table::read(lease.session()), Retry::Safe).await;
    match &settings {
        Ok(_) => lease.hand_back(),
        Err(error) => lease.hand_back_after(error).await,
    }
    settings
}

async fn change_one(pool: &Arc<Pool>, change: SettingChange) -> Result<(), StoreError> {
    let lease = pool.lease().await?;
    let changed = lease.session().within(table::change(lease.session(), change), Retry::Unclear).await;
    match &changed {
        Ok(()) => lease.hand_back(),
        Err(error) => lease.hand_back_after(error).await,
    }
    changed
}

fn failed(retry: Retry, message: &str) -> StoreError {
    StoreError { fault: Fault::Store, retry, message: message.to_owned() }
}
