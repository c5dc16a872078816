//! Lists accounts: one bounded query over the primary key.

use tollway_core::{AccountKey, AccountList, KEY_VERSION, Name, StoreError};

use crate::error::before_commit;
use crate::session::Session;

const LIST: &str = "
    SELECT key FROM lines
    WHERE key >= $1 AND key < $2 AND expires > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    ORDER BY key LIMIT $3";

/// The accounts of one policy or of all.
pub(crate) async fn read(
    session: &Session,
    policy: Option<&Name>,
    at_most: usize,
) -> Result<AccountList, StoreError> {
    let (from, to) = range(policy);
    let limit = i64::try_from(at_most.saturating_add(1)).unwrap_or(i64::MAX);
    let rows = session.client().query(LIST, &[&from, &to, &limit]).await;
    let rows = rows.map_err(|error| before_commit(&error))?;
    let is_complete = rows.len() <= at_most;
    // A key that this release cannot read belongs to another one.
    let key = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<AccountKey>().ok();
    let keys = rows.iter().take(at_most).filter_map(|row| key(row.try_get(0).ok()?)).collect();
    Ok(AccountList { keys, is_complete })
}

/// All keys that begin with the version, and the policy if there is one. `;` is the sign after `:`.
fn range(policy: Option<&Name>) -> (Vec<u8>, Vec<u8>) {
    let start = match policy {
        Some(policy) => format!("{KEY_VERSION}:{}:{policy}", policy.as_str().len()),
        None => KEY_VERSION.to_string(),
    };
    (format!("{start}:").into_bytes(), format!("{start};").into_bytes())
}
