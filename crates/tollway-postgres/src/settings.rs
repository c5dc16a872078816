//! Limits as data: a small table that all who share the store read now and then, over a connection of its own.

use std::sync::Arc;

use tollway_core::{Retry, Setting, SettingChange, StoreError};
use tollway_remote::SettingsTable;

use crate::options::PostgresOptions;
use crate::pool::{Lease, Pool};
use crate::settings_table as table;

/// Where settings are asked for.
pub(crate) type SettingsDesk = tollway_remote::SettingsDesk<PostgresSettings>;

/// The table, by way of one connection.
pub(crate) struct PostgresSettings(Arc<Pool>);

impl SettingsTable for PostgresSettings {
    type Options = PostgresOptions;

    fn open(options: PostgresOptions) -> Self {
        Self(Pool::new(PostgresOptions { connections: 1, ..options }))
    }

    async fn read(&self) -> Result<Vec<Setting>, StoreError> {
        let lease = self.0.lease().await?;
        let settings = lease.session().within(table::read(lease.session()), Retry::Safe).await;
        conclude(lease, settings).await
    }

    async fn change(&self, change: SettingChange) -> Result<(), StoreError> {
        let lease = self.0.lease().await?;
        let changed = lease.session().within(table::change(lease.session(), change), Retry::Unclear).await;
        conclude(lease, changed).await
    }
}

/// Hands the connection back, if it is still good for anything.
async fn conclude<T>(lease: Lease, answer: Result<T, StoreError>) -> Result<T, StoreError> {
    match &answer {
        Ok(_) => lease.hand_back(),
        Err(error) => lease.hand_back_after(error).await,
    }
    answer
}
