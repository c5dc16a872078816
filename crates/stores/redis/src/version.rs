//! Refuses a server that is too old for the layout: its script would fail with every call.

use std::collections::HashMap;

use redis::{FromRedisValue, RedisResult, Value};
use tollway_core::{Fault, Retry, StoreError};

use crate::address::Layout;
use crate::connection::Connection;
use crate::error::not_connected;

/// The newest command of the layout `consumers`, and the first Redis that has it.
const NEWEST_COMMAND: &str = "PEXPIRETIME";
const NEEDED: &str = "7.0";

/// The error if the server does not know a command that the layout needs. A command is asked for and not compared by
/// version, because servers other than Redis have version numbers of their own; HELLO is for the message and needs no
/// permission.
pub(crate) async fn too_old(
    connection: &mut Connection,
    layout: Layout,
) -> Result<Option<StoreError>, StoreError> {
    match layout {
        // Its script needs nothing newer than Redis 6.2.
        Layout::Lines => return Ok(None),
        Layout::Consumers => {}
    }
    let mut newest = redis::cmd(NEWEST_COMMAND);
    newest.arg("tollway.probe_PER_SECOND");
    let mut answers = connection.send(vec![newest, redis::cmd("HELLO")]).await.into_iter();
    let (knows, hello) = (answers.next(), answers.next());
    match knows {
        Some(Ok(Value::ServerError(error))) if is_unknown(error.code(), error.details()) => {
            Ok(Some(error_of(version(hello).as_deref())))
        }
        Some(Err(error)) if is_unknown(error.code().unwrap_or_default(), error.detail()) => {
            Ok(Some(error_of(version(hello).as_deref())))
        }
        Some(Err(error)) => Err(not_connected(&error)),
        // Any other refusal, such as a missing permission, is told by the call itself.
        _ => Ok(None),
    }
}

fn is_unknown(code: &str, detail: Option<&str>) -> bool {
    code == "ERR" && detail.is_some_and(|detail| detail.starts_with("unknown command"))
}

/// The version that the server reports, if it does.
fn version(hello: Option<RedisResult<Value>>) -> Option<String> {
    let fields = HashMap::<String, Value>::from_redis_value(hello?.ok()?).ok()?;
    String::from_redis_value(fields.get("version")?.clone()).ok()
}

fn error_of(version: Option<&str>) -> StoreError {
    let version = version.unwrap_or("of an unknown version");
    let message = format!(
        "this Redis is too old for layout=consumers: it is {version}, and the layout needs {NEEDED} or newer, for {NEWEST_COMMAND}"
    );
    StoreError { fault: Fault::Store, retry: Retry::Useless, message }
}
