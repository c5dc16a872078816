//! The table of settings: read whole, changed one at a time.

use tokio_postgres::Row;
use tollway_core::{Name, Setting, SettingChange, SettingList, StoreError, Timestamp};

use crate::error::{at_commit, before_commit, unreadable};
use crate::session::Session;

const READ: &str = r#"SELECT policy, "limit", amount, burst, set_at FROM settings ORDER BY policy, "limit""#;

const REMOVE: &str = r#"DELETE FROM settings WHERE policy = $1 AND "limit" = $2"#;

const SET: &str = r#"
    INSERT INTO settings (policy, "limit", amount, burst, set_at) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (policy, "limit") DO UPDATE
    SET amount = excluded.amount, burst = excluded.burst, set_at = excluded.set_at"#;

const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// All settings.
pub(crate) async fn read(session: &Session) -> Result<Vec<Setting>, StoreError> {
    let rows = session.client().query(READ, &[]).await.map_err(|error| before_commit(&error))?;
    rows.iter().map(setting).collect()
}

/// Changes one setting under a lock, because the number of settings is bounded.
pub(crate) async fn change(session: &Session, change: SettingChange) -> Result<(), StoreError> {
    let client = session.client();
    let begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; LOCK TABLE settings IN EXCLUSIVE MODE";
    client.batch_execute(begin).await.map_err(|error| before_commit(&error))?;
    let mut list = SettingList::new(read(session).await?);
    let now = client.query_one(NOW, &[]).await.map_err(|error| before_commit(&error))?;
    let now = Timestamp::from_micros(unsigned(&now, 0)?);
    let (policy, limit) = (change.policy.clone(), change.limit.clone());
    list.change(change, now)?;
    let set = list.all().iter().find(|setting| setting.policy == policy && setting.limit == limit);
    let key: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&policy.as_str(), &limit.as_str()];
    let changed = match set {
        None => client.execute(REMOVE, &key).await,
        Some(setting) => {
            let (amount, burst) = (signed(setting.amount), setting.burst.map(signed));
            let set_at = signed(setting.set_at.as_micros());
            client.execute(SET, &[key[0], key[1], &amount, &burst, &set_at]).await
        }
    };
    changed.map_err(|error| before_commit(&error))?;
    client.batch_execute("COMMIT").await.map_err(|error| at_commit(&error))
}

pub(crate) fn setting(row: &Row) -> Result<Setting, StoreError> {
    let name = |index: usize| {
        let text: &str = row.try_get(index).map_err(|error| before_commit(&error))?;
        Name::new(text).map_err(|error| unreadable("a setting", &error))
    };
    let burst: Option<i64> = row.try_get(3).map_err(|error| before_commit(&error))?;
    Ok(Setting {
        policy: name(0)?,
        limit: name(1)?,
        amount: unsigned(row, 2)?,
        burst: burst.map(|burst| u64::try_from(burst).unwrap_or(0)),
        set_at: Timestamp::from_micros(unsigned(row, 4)?),
    })
}

fn unsigned(row: &Row, index: usize) -> Result<u64, StoreError> {
    let number: i64 = row.try_get(index).map_err(|error| before_commit(&error))?;
    u64::try_from(number).map_err(|error| unreadable("a number", &error))
}

/// An amount that was set is far below the largest `bigint`, or its limit refuses it.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
