//! Limits set at run time: one item that every process of the table polls.

use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use tollway_aws::{ClockCheck, SystemClock};
use tollway_core::{Clock, Fault, Retry, Setting, SettingChange, SettingList, StoreError};
use tollway_remote::SettingsTable;

use crate::error::unreadable;
use crate::item::{Attributes, KEY, VERSION, number, text};
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
pub(crate) struct DynamoSettings(Table);

impl SettingsTable for DynamoSettings {
    type Options = DynamoOptions;

    fn open(options: DynamoOptions) -> Self {
        Self(Table::new(options, ClockCheck::new(Arc::new(SystemClock)), Arc::default()))
    }

    async fn read(&self) -> Result<Vec<Setting>, StoreError> {
        let (list, _) = read(&self.0).await?;
        Ok(list.all().to_vec())
    }

    async fn change(&self, change: SettingChange) -> Result<(), StoreError> {
        for _ in 0..TRIES_MAX {
            if try_change(&self.0, change.clone()).await? {
                return Ok(());
            }
        }
        let message = "DynamoDB: others change settings all the time".to_owned();
        Err(StoreError { fault: Fault::Store, retry: Retry::Safe, message })
    }
}

/// All settings, and the version of their item.
async fn read(table: &Table) -> Result<(SettingList, u64), StoreError> {
    let Some(attributes) = table.read(SETTINGS_KEY).await? else { return Ok((SettingList::default(), 0)) };
    let list = serde_json::from_str(text(&attributes, SETTINGS)?);
    let list = list.map_err(|error| unreadable(SETTINGS, &error))?;
    Ok((SettingList::new(list), number(&attributes, VERSION)?))
}

/// Changes one, unless another process changed any since they were read. False if so.
async fn try_change(table: &Table, change: SettingChange) -> Result<bool, StoreError> {
    let (mut list, on_version) = read(table).await?;
    list.change(change, SystemClock.now())?;
    let text = serde_json::to_string(list.all()).map_err(|error| unreadable(SETTINGS, &error))?;
    let attributes = Attributes::from([
        (KEY.to_owned(), AttributeValue::S(SETTINGS_KEY.to_owned())),
        (SETTINGS.to_owned(), AttributeValue::S(text)),
        (VERSION.to_owned(), AttributeValue::N((on_version + 1).to_string())),
    ]);
    let change = Change { key: SETTINGS_KEY.to_owned(), on_version, attributes: Some(attributes) };
    Ok(matches!(table.write(vec![change]).await?, Written::Yes))
}
