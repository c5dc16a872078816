//! Limits set at run time: a small table that every process of the store polls over its own connection.

use std::sync::Arc;

use tollway_core::{AccountList, FollowedSettings, Name, Retry, Setting, SettingChange, StoreError};
use tollway_remote::SettingsTable;

use crate::account_list;
use crate::following;
use crate::link::draw_writer;
use crate::options::PostgresOptions;
use crate::pool::{Pool, PooledSession, pool};
use crate::settings_table as table;

/// The client for settings.
pub(crate) type SettingsClient = tollway_remote::SettingsClient<PostgresSettings>;

/// The table, by way of one connection.
pub(crate) struct PostgresSettings {
    pool: Arc<Pool>,
    /// The name of this limiter among those that follow the settings.
    name: Vec<u8>,
}

impl SettingsTable for PostgresSettings {
    type Options = PostgresOptions;

    fn open(options: PostgresOptions) -> Self {
        Self { pool: pool(PostgresOptions { connections: 1, ..options }), name: draw_writer() }
    }

    async fn read(&self) -> Result<Vec<Setting>, StoreError> {
        let lease = self.pool.lease().await?;
        let settings = lease.session().within(table::read(lease.session()), Retry::Safe).await;
        conclude(lease, settings).await
    }

    async fn follow(&self, registers: bool) -> Result<FollowedSettings, StoreError> {
        let lease = self.pool.lease().await?;
        let followed = following::read(lease.session(), &self.name, registers);
        let followed = lease.session().within(followed, Retry::Safe).await;
        conclude(lease, followed).await
    }

    async fn change(&self, change: SettingChange) -> Result<(), StoreError> {
        let lease = self.pool.lease().await?;
        let changed = lease.session().within(table::change(lease.session(), change), Retry::Unclear).await;
        conclude(lease, changed).await
    }

    async fn accounts(&self, policy: Option<Name>, at_most: usize) -> Result<AccountList, StoreError> {
        let lease = self.pool.lease().await?;
        let list = account_list::read(lease.session(), policy.as_ref(), at_most);
        let list = lease.session().within(list, Retry::Safe).await;
        conclude(lease, list).await
    }
}

/// Hands the connection back, if it is still good for anything.
async fn conclude<T>(lease: PooledSession, answer: Result<T, StoreError>) -> Result<T, StoreError> {
    match &answer {
        Ok(_) => lease.return_to_pool(),
        Err(error) => lease.return_to_pool_after(error).await,
    }
    answer
}
