//! Limits as data: where a store across a network is asked for settings.
//!
//! Whoever asks may run on any executor or on none, so a thread answers. It is started when somebody asks for the first
//! time: most processes of a test, and many others, never do.

use std::future::Future;
use std::io;
use std::sync::OnceLock;
use std::thread;

use tokio::runtime;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tollway_core::{Fault, Retry, Setting, SettingChange, SettingsAnswer, StoreError};

/// How many may ask at the same time. One more is an error, never a block.
const ASKED_MAX: usize = 64;

/// Where a store keeps its settings. It is opened and used on the desk's thread only, within a tokio runtime.
pub trait SettingsTable: Sized + 'static {
    /// What it must know to be opened.
    type Options: Clone + Send + Sync + 'static;

    /// Opens it. It connects when it is first used.
    fn open(options: Self::Options) -> Self;

    /// All settings.
    fn read(&self) -> impl Future<Output = Result<Vec<Setting>, StoreError>>;

    /// Changes one.
    fn change(&self, change: SettingChange) -> impl Future<Output = Result<(), StoreError>>;
}

/// Where settings are asked for.
pub struct SettingsDesk<T: SettingsTable> {
    options: T::Options,
    queue: OnceLock<Result<Sender<Asked>, StoreError>>,
}

enum Asked {
    Read(oneshot::Sender<Result<Vec<Setting>, StoreError>>),
    Change(SettingChange, oneshot::Sender<Result<(), StoreError>>),
}

impl<T: SettingsTable> SettingsDesk<T> {
    /// A desk before this table.
    pub fn new(options: T::Options) -> Self {
        Self { options, queue: OnceLock::new() }
    }

    /// All settings.
    pub fn read(&self) -> SettingsAnswer<Vec<Setting>> {
        self.ask(Asked::Read)
    }

    /// Changes one.
    pub fn change(&self, change: SettingChange) -> SettingsAnswer<()> {
        self.ask(|answer| Asked::Change(change, answer))
    }

    fn ask<A: Send + 'static>(
        &self,
        asked: impl FnOnce(oneshot::Sender<Result<A, StoreError>>) -> Asked,
    ) -> SettingsAnswer<A> {
        let (answer, answered) = oneshot::channel();
        let queue = self.queue.get_or_init(|| start::<T>(self.options.clone())).as_ref();
        let full = |_| failed(Retry::Safe, &format!("{ASKED_MAX} requests for settings wait already"));
        let sent = queue.map_err(Clone::clone).and_then(|queue| queue.try_send(asked(answer)).map_err(full));
        Box::pin(async move {
            sent?;
            answered.await.unwrap_or_else(|_| Err(failed(Retry::Unclear, "the store was closed")))
        })
    }
}

fn start<T: SettingsTable>(options: T::Options) -> Result<Sender<Asked>, StoreError> {
    let no_thread = |error: io::Error| failed(Retry::Safe, &format!("no thread for settings: {error}"));
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
    let (queue, asked) = channel(ASKED_MAX);
    let thread = thread::Builder::new().name("tollway-settings".to_owned());
    thread.spawn(move || runtime.block_on(serve::<T>(options, asked))).map_err(no_thread)?;
    Ok(queue)
}

/// One after the other, until the store is dropped.
async fn serve<T: SettingsTable>(options: T::Options, mut asked: Receiver<Asked>) {
    let table = T::open(options);
    while let Some(asked) = asked.recv().await {
        // Whoever has left need not know.
        match asked {
            Asked::Read(answer) => drop(answer.send(table.read().await)),
            Asked::Change(change, answer) => drop(answer.send(table.change(change).await)),
        }
    }
}

fn failed(retry: Retry, message: &str) -> StoreError {
    StoreError { fault: Fault::Store, retry, message: message.to_owned() }
}
