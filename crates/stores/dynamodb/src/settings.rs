//! Limits set at run time: one item that every process of the table polls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodb::types::AttributeValue;
use tollway_aws::{ClockCheck, SystemClock};
use tollway_core::{Clock, Fault, FollowedSettings, Retry, Setting, SettingChange, SettingList, StoreError};
use tollway_remote::SettingsTable;

use crate::error::unreadable;
use crate::item::{Attributes, KEY, VERSION, number, text};
use crate::limiters::{self, Registration};
use crate::options::DynamoOptions;
use crate::table::{Change, Table, Written};

/// The key of the item. Keys of accounts begin with their version.
const SETTINGS_KEY: &str = "settings:1";

const SETTINGS: &str = "settings";

/// How often a change is tried while others change, too.
const TRIES_MAX: usize = 16;

/// The client for settings.
pub(crate) type SettingsClient = tollway_remote::SettingsClient<DynamoSettings>;

/// The item, in its table.
pub(crate) struct DynamoSettings {
    table: Table,
    registration: Mutex<Registration>,
}

impl SettingsTable for DynamoSettings {
    type Options = DynamoOptions;

    fn open(options: DynamoOptions) -> Self {
        let table = Table::new(options, ClockCheck::new(Arc::new(SystemClock)), Arc::default());
        Self { table, registration: Mutex::new(Registration::new()) }
    }

    async fn read(&self) -> Result<Vec<Setting>, StoreError> {
        let item = self.table.read(SETTINGS_KEY).await?.unwrap_or_default();
        Ok(settings_of(&item)?.0.all().to_vec())
    }

    async fn follow(&self, registers: bool) -> Result<FollowedSettings, StoreError> {
        let now = SystemClock.now();
        let due = if registers { self.registration().due(now) } else { None };
        let item = match due {
            Some((add, remove)) => self.register(add, remove).await?,
            None => self.table.read(SETTINGS_KEY).await?.unwrap_or_default(),
        };
        let settings = settings_of(&item)?.0.all().to_vec();
        Ok(FollowedSettings { settings, limiters: self.registration().limiters(&item, now) })
    }

    async fn change(&self, change: SettingChange) -> Result<(), StoreError> {
        for _ in 0..TRIES_MAX {
            if try_change(&self.table, change.clone()).await? {
                return Ok(());
            }
        }
        let message = "DynamoDB: others change settings all the time".to_owned();
        Err(StoreError { fault: Fault::Store, retry: Retry::Safe, message })
    }
}

impl DynamoSettings {
    fn registration(&self) -> MutexGuard<'_, Registration> {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts this limiter, which answers with the item. Without the right to, it reads.
    async fn register(&self, add: Vec<String>, remove: Vec<String>) -> Result<Attributes, StoreError> {
        // A reader of an earlier version expects both.
        let defaults = Attributes::from([
            (SETTINGS.to_owned(), AttributeValue::S("[]".to_owned())),
            (VERSION.to_owned(), AttributeValue::N("1".to_owned())),
        ]);
        match self.table.count(SETTINGS_KEY, defaults, add, remove).await {
            Ok(item) => {
                self.registration().counted();
                Ok(item)
            }
            Err(error) if error.retry == Retry::Useless => {
                tracing::debug!(%error, "this limiter is not counted");
                Ok(self.table.read(SETTINGS_KEY).await?.unwrap_or_default())
            }
            Err(error) => Err(error),
        }
    }
}

/// All settings of an item, and its version; zero without an item.
fn settings_of(item: &Attributes) -> Result<(SettingList, u64), StoreError> {
    if item.is_empty() {
        return Ok((SettingList::default(), 0));
    }
    let list = serde_json::from_str(text(item, SETTINGS)?);
    let list = list.map_err(|error| unreadable(SETTINGS, &error))?;
    Ok((SettingList::new(list), number(item, VERSION)?))
}

/// Changes one, unless another process changed any since they were read. False if so.
async fn try_change(table: &Table, change: SettingChange) -> Result<bool, StoreError> {
    let item = table.read(SETTINGS_KEY).await?.unwrap_or_default();
    let (mut list, on_version) = settings_of(&item)?;
    list.change(change, SystemClock.now())?;
    let text = serde_json::to_string(list.all()).map_err(|error| unreadable(SETTINGS, &error))?;
    let mut attributes = Attributes::from([
        (KEY.to_owned(), AttributeValue::S(SETTINGS_KEY.to_owned())),
        (SETTINGS.to_owned(), AttributeValue::S(text)),
        (VERSION.to_owned(), AttributeValue::N((on_version + 1).to_string())),
    ]);
    attributes.extend(limiters::counters(&item));
    let change = Change { key: SETTINGS_KEY.to_owned(), on_version, attributes: Some(attributes) };
    Ok(matches!(table.write(vec![change]).await?, Written::Yes))
}
