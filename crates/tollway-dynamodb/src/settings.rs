//! Limits as data: one item that all who share the table read now and then.

use std::sync::{Arc, OnceLock};

use aws_sdk_dynamodb::types::AttributeValue;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tollway_aws::{ClockCheck, SystemClock};
use tollway_core::{Clock, Fault, Retry, Setting, SettingChange, SettingList, SettingsAnswer, StoreError};

use crate::error::unreadable;
use crate::item::{Attributes, KEY, VERSION, number, text};
use crate::options::DynamoOptions;
use crate::table::{Change, Table, Written};

/// The key of the item. Keys of lines begin with their version.
const SETTINGS_KEY: &str = "settings:1";

const SETTINGS: &str = "settings";

/// How many may ask at the same time. One more is an error, never a block.
const ASKED_MAX: usize = 64;

/// How often a change is tried while others change, too.
const TRIES_MAX: usize = 16;

/// Where settings are asked for. Whoever asks may run on any executor or on none, so a thread answers; it is started
/// when somebody asks for the first time.
pub(crate) struct SettingsDesk {
    options: DynamoOptions,
    queue: OnceLock<Result<Sender<Asked>, StoreError>>,
}

enum Asked {
    Read(oneshot::Sender<Result<Vec<Setting>, StoreError>>),
    Change(SettingChange, oneshot::Sender<Result<(), StoreError>>),
}

impl SettingsDesk {
    pub(crate) fn new(options: DynamoOptions) -> Self {
        Self { options, queue: OnceLock::new() }
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
        let full = |_| failed(Retry::Safe, &format!("{ASKED_MAX} requests for settings wait already"));
        let sent = queue.map_err(Clone::clone).and_then(|queue| queue.try_send(asked(answer)).map_err(full));
        Box::pin(async move {
            sent?;
            answered.await.unwrap_or_else(|_| Err(failed(Retry::Unclear, "the store was closed")))
        })
    }
}

fn start(options: DynamoOptions) -> Result<Sender<Asked>, StoreError> {
    let no_thread = |error: std::io::Error| failed(Retry::Safe, &format!("no thread for settings: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
    let (queue, asked) = channel(ASKED_MAX);
    let thread = std::thread::Builder::new().name("tollway-settings".to_owned());
    thread.spawn(move || runtime.block_on(serve(options, asked))).map_err(no_thread)?;
    Ok(queue)
}

/// One after the other, until the store is dropped.
async fn serve(options: DynamoOptions, mut asked: Receiver<Asked>) {
    let table = Table::new(options, ClockCheck::new(Arc::new(SystemClock)), Arc::default());
    while let Some(asked) = asked.recv().await {
        // Whoever has left need not know.
        match asked {
            Asked::Read(answer) => drop(answer.send(read(&table).await.map(|(list, _)| list.all().to_vec()))),
            Asked::Change(wanted, answer) => drop(answer.send(change(&table, &wanted).await)),
        }
    }
}

/// All settings, and the version of their item.
async fn read(table: &Table) -> Result<(SettingList, u64), StoreError> {
    let Some(attributes) = table.read(SETTINGS_KEY).await? else { return Ok((SettingList::default(), 0)) };
    let list = serde_json::from_str(text(&attributes, SETTINGS)?);
    let list = list.map_err(|error| unreadable(SETTINGS, &error))?;
    Ok((SettingList::new(list), number(&attributes, VERSION)?))
}

async fn change(table: &Table, wanted: &SettingChange) -> Result<(), StoreError> {
    for _ in 0..TRIES_MAX {
        let (mut list, on_version) = read(table).await?;
        list.change(wanted.clone(), SystemClock.now())?;
        let text = serde_json::to_string(list.all()).map_err(|error| unreadable(SETTINGS, &error))?;
        let attributes = Attributes::from([
            (KEY.to_owned(), AttributeValue::S(SETTINGS_KEY.to_owned())),
            (SETTINGS.to_owned(), AttributeValue::S(text)),
            (VERSION.to_owned(), AttributeValue::N((on_version + 1).to_string())),
        ]);
        let (key, attributes) = (SETTINGS_KEY.to_owned(), Some(attributes));
        if let Written::Yes = table.write(vec![Change { key, on_version, attributes }]).await? {
            return Ok(());
        }
    }
    Err(failed(Retry::Safe, "others change settings all the time"))
}

fn failed(retry: Retry, message: &str) -> StoreError {
    StoreError { fault: Fault::Store, retry, message: message.to_owned() }
}
