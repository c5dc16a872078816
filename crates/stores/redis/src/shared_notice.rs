//! Tells every process of a server until when subjects may share accounts. A process that does not know would make a subject
//! its own account while the shared one counts, and so give it its limit twice.

use std::time::Duration;

use redis::FromRedisValue;

use crate::script_call::Script;
use crate::servers::Servers;

static SCRIPT: Script = Script::new(include_str!("script/shared_notice.lua"));

/// What the server said.
pub(crate) enum Notice {
    /// For so long, subjects may share accounts.
    Lasts(Duration),
    /// It did not answer, or not what is expected.
    Unknown,
}

/// Notes that subjects share accounts for so long, if that is longer than what is noted, and returns what is noted then. In a
/// full server the one key of it is made, too.
pub(crate) async fn exchange(servers: &Servers, key: &str, lasts: Duration, may_be_full: bool) -> Notice {
    let mut command = SCRIPT.call(true, may_be_full);
    command.arg(1).arg(key).arg(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
    let answer = servers.ask(key, &command).await;
    match answer.ok().and_then(|value| u64::from_redis_value(value).ok()) {
        Some(left) => Notice::Lasts(Duration::from_millis(left)),
        None => Notice::Unknown,
    }
}
