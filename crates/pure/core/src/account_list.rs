//! Lists of accounts: which subjects a store has state of.

use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

use crate::AccountKey;
use crate::store::StoreError;

/// The accounts of a store that have not expired, in no particular order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountList {
    /// Their keys.
    pub keys: Vec<AccountKey>,
    /// Whether these are all. False if the store has more than were asked for.
    pub is_complete: bool,
}

/// The future of a list of accounts.
pub type AccountListAnswer = Pin<Box<dyn Future<Output = Result<AccountList, StoreError>> + Send>>;

impl AccountList {
    /// The first `at_most` of these keys.
    pub fn of(mut keys: impl Iterator<Item = AccountKey>, at_most: usize) -> Self {
        let listed: Vec<AccountKey> = keys.by_ref().take(at_most).collect();
        Self { keys: listed, is_complete: keys.next().is_none() }
    }
}
