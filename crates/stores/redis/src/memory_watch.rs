//! Asks the server in the background: how much of its memory it uses, for the alarm and for what a full server still gets, and
//! until when subjects may share accounts.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use redis::{FromRedisValue, Value};
use tokio::time::{sleep, timeout};

use crate::node::Node;
use crate::room::Room;
use crate::servers::Servers;

/// How often the server is asked: `INFO memory` takes it some ten microseconds.
const EVERY: Duration = Duration::from_secs(10);

/// How often it is asked while it is full, or does not answer.
const EVERY_WHILE_FULL: Duration = Duration::from_secs(1);

/// Starts to ask, once, on the runtime of the caller. It ends with the link. `notice` is the key that says until when subjects
/// may share accounts.
pub(crate) fn start(room: &Arc<Room>, servers: &Arc<Servers>, notice: impl FnOnce() -> String) {
    if !room.is_watched.swap(true, Ordering::Relaxed) {
        tokio::spawn(watch(Arc::downgrade(room), Arc::downgrade(servers), notice()));
    }
}

async fn watch(room: Weak<Room>, servers: Weak<Servers>, notice: String) {
    loop {
        let (Some(asked), Some(servers)) = (room.upgrade(), servers.upgrade()) else { return };
        let is_told = asked.exchange_notice(&servers, &notice).await;
        // A server that does not answer keeps its last figure; the calls notice that it is away.
        if let Some(used) = memory_used(&servers).await {
            asked.note_memory(used);
        }
        drop(servers);
        // Each call that lets subjects share would wake it again while it cannot note that.
        if asked.is_full() || !is_told {
            sleep(EVERY_WHILE_FULL).await;
        } else {
            // It asks at once when it finds the server full, or lets subjects share.
            let _ = timeout(EVERY, asked.wake.notified()).await;
        }
    }
}

/// How much of its `maxmemory` it uses, in millionths; of a Cluster, the fullest node. 0 without such a bound.
async fn memory_used(servers: &Servers) -> Option<u64> {
    let nodes = servers.all();
    join_all(nodes.iter().map(|node| memory_used_of(node))).await.into_iter().flatten().max()
}

async fn memory_used_of(node: &Node) -> Option<u64> {
    let mut info = redis::cmd("INFO");
    info.arg("memory");
    used_of(node.get().await.ok()?.send(vec![info]).await.pop()?.ok()?)
}

fn used_of(info: Value) -> Option<u64> {
    let text = String::from_redis_value(info.extract_error().ok()?).ok()?;
    let number = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().parse::<u64>().ok()
    };
    let (used, most) = (number("used_memory")?, number("maxmemory")?);
    Some(used.saturating_mul(1_000_000).checked_div(most).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_the_memory_is_read() {
        let info = |text: &str| used_of(Value::BulkString(text.as_bytes().to_vec()));
        assert_eq!(
            info("# Memory\r\nused_memory:800\r\nused_memory_rss:9\r\nmaxmemory:1000\r\n"),
            Some(800_000)
        );
        assert_eq!(info("used_memory:800\r\nmaxmemory:0\r\n"), Some(0), "no bound");
        assert_eq!(info("used_memory:800\r\n"), None);
    }
}
