//! Lists accounts with `SCAN`, within a bound: a database may hold many other keys.

use redis::{FromRedisValue, Value};
use tollway_core::{AccountKey, AccountList, AccountListAnswer, Name};

use crate::error::not_understood;
use crate::keys::Keys;
use crate::settings::RedisSettings;

/// How many keys the server looks at in one round.
const KEYS_PER_ROUND: usize = 1_000;
/// The most rounds: 100,000 keys.
const ROUNDS_MAX: usize = 100;

/// The accounts of one policy or of all, over the connection of the settings.
pub(crate) fn list(
    connection: RedisSettings,
    keys: Keys,
    policy: Option<&Name>,
    at_most: usize,
) -> AccountListAnswer {
    let pattern = keys.pattern(policy);
    Box::pin(async move {
        let (mut found, mut cursor) = (Vec::new(), String::from("0"));
        for _ in 0..ROUNDS_MAX {
            let mut command = redis::cmd("SCAN");
            command.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(KEYS_PER_ROUND);
            let (next, page) = page(connection.ask(command).await?)
                .ok_or_else(|| not_understood("SCAN has another answer than a cursor and keys"))?;
            found.extend(page.iter().filter_map(|key| keys.account_of(key)));
            cursor = next;
            if cursor == "0" || found.len() > at_most {
                break;
            }
        }
        Ok(bounded(found, at_most, cursor == "0"))
    })
}

fn page(answer: Value) -> Option<(String, Vec<String>)> {
    let (cursor, keys) = <(String, Vec<Vec<u8>>)>::from_redis_value(answer).ok()?;
    Some((cursor, keys.into_iter().filter_map(|key| String::from_utf8(key).ok()).collect()))
}

/// `SCAN` may return a key twice.
fn bounded(mut found: Vec<AccountKey>, at_most: usize, saw_all: bool) -> AccountList {
    found.sort_unstable();
    found.dedup();
    let list = AccountList::of(found.into_iter(), at_most);
    AccountList { is_complete: list.is_complete && saw_all, ..list }
}
