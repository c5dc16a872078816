//! Limits set at run time: the client for the settings of a store across a network.
//!
//! A caller may run on any executor or on none, so a thread does the work. It starts with the first request; many processes
//! never make one.

use std::future::Future;
use std::io;
use std::sync::OnceLock;
use std::thread;

use tokio::runtime;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tollway_core::{
    AccountList, AccountListAnswer, Fault, FollowedSettings, Name, Retry, Setting, SettingChange,
    SettingsAnswer, StoreError,
};

/// How many requests may be queued. One more is an error; callers never block.
const REQUESTS_MAX: usize = 64;

/// The settings of a store. The client opens and uses it on its own thread only, within a tokio runtime.
pub trait SettingsTable: Sized + 'static {
    /// What `open` needs.
    type Options: Clone + Send + Sync + 'static;

    /// Opens the table. It connects at its first use.
    fn open(options: Self::Options) -> Self;

    /// All settings.
    fn read(&self) -> impl Future<Output = Result<Vec<Setting>, StoreError>>;

    /// All settings, and how many limiters read them within the last minute; see
    /// [`Settings::follow`](tollway_core::Settings::follow).
    fn follow(&self, registers: bool) -> impl Future<Output = Result<FollowedSettings, StoreError>>;

    /// Changes one.
    fn change(&self, change: SettingChange) -> impl Future<Output = Result<(), StoreError>>;

    /// Lists accounts, for a store that can.
    fn accounts(
        &self,
        policy: Option<Name>,
        at_most: usize,
    ) -> impl Future<Output = Result<AccountList, StoreError>> {
        let _ = (policy, at_most);
        std::future::ready(Err(failed(Retry::Useless, "this store cannot list accounts")))
    }
}

/// The client for settings.
pub struct SettingsClient<T: SettingsTable> {
    options: T::Options,
    queue: OnceLock<Result<Sender<SettingsRequest>, StoreError>>,
}

enum SettingsRequest {
    Read(oneshot::Sender<Result<Vec<Setting>, StoreError>>),
    Follow(bool, oneshot::Sender<Result<FollowedSettings, StoreError>>),
    Change(SettingChange, oneshot::Sender<Result<(), StoreError>>),
    Accounts(Option<Name>, usize, oneshot::Sender<Result<AccountList, StoreError>>),
}

impl<T: SettingsTable> SettingsClient<T> {
    /// A client for the table with these options.
    pub fn new(options: T::Options) -> Self {
        Self { options, queue: OnceLock::new() }
    }

    /// All settings.
    pub fn read(&self) -> SettingsAnswer<Vec<Setting>> {
        self.request(SettingsRequest::Read)
    }

    /// All settings, and how many limiters follow them.
    pub fn follow(&self, registers: bool) -> SettingsAnswer<FollowedSettings> {
        self.request(|answer| SettingsRequest::Follow(registers, answer))
    }

    /// Changes one.
    pub fn change(&self, change: SettingChange) -> SettingsAnswer<()> {
        self.request(|answer| SettingsRequest::Change(change, answer))
    }

    /// Lists accounts over the same connection.
    pub fn accounts(&self, policy: Option<&Name>, at_most: usize) -> AccountListAnswer {
        let policy = policy.cloned();
        self.request(|answer| SettingsRequest::Accounts(policy, at_most, answer))
    }

    fn request<A: Send + 'static>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<A, StoreError>>) -> SettingsRequest,
    ) -> SettingsAnswer<A> {
        let (answer, answered) = oneshot::channel();
        let queue = self.queue.get_or_init(|| start::<T>(self.options.clone())).as_ref();
        let full =
            |_| failed(Retry::Safe, &format!("{REQUESTS_MAX} requests for settings are already queued"));
        let sent =
            queue.map_err(Clone::clone).and_then(|queue| queue.try_send(request(answer)).map_err(full));
        Box::pin(async move {
            sent?;
            answered.await.unwrap_or_else(|_| Err(failed(Retry::Unclear, "the store was closed")))
        })
    }
}

fn start<T: SettingsTable>(options: T::Options) -> Result<Sender<SettingsRequest>, StoreError> {
    let no_thread =
        |error: io::Error| failed(Retry::Safe, &format!("cannot start a thread for settings: {error}"));
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
    let (queue, request) = channel(REQUESTS_MAX);
    let thread = thread::Builder::new().name("tollway-settings".to_owned());
    thread.spawn(move || runtime.block_on(serve::<T>(options, request))).map_err(no_thread)?;
    Ok(queue)
}

/// Serves requests one by one until the store is dropped.
async fn serve<T: SettingsTable>(options: T::Options, mut request: Receiver<SettingsRequest>) {
    let table = T::open(options);
    while let Some(request) = request.recv().await {
        // The caller may be gone.
        match request {
            SettingsRequest::Read(answer) => drop(answer.send(table.read().await)),
            SettingsRequest::Follow(registers, answer) => drop(answer.send(table.follow(registers).await)),
            SettingsRequest::Change(change, answer) => drop(answer.send(table.change(change).await)),
            SettingsRequest::Accounts(policy, at_most, answer) => {
                drop(answer.send(table.accounts(policy, at_most).await));
            }
        }
    }
}

fn failed(retry: Retry, message: &str) -> StoreError {
    StoreError { fault: Fault::Store, retry, message: message.to_owned() }
}
