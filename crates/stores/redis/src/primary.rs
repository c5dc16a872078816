//! Which primary a connection leads to: it changes when a replica takes over, or when the server starts again. Then it may have
//! forgotten the last writes.

use redis::{RedisResult, Value};
use tollway_core::Fingerprint;

use crate::connection::Connection;

/// Largest whole number that the script's numbers hold exactly.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// A primary, from one start or promotion to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Primary(u64);

impl Primary {
    /// The primary behind a connection; nothing if its user may not ask.
    pub(crate) async fn of(connection: &mut Connection) -> Option<Self> {
        let ask = |section| redis::cmd("INFO").arg(section).to_owned();
        let answers = connection.send(vec![ask("server"), ask("replication")]).await;
        let texts: Option<Vec<String>> = answers.into_iter().map(text).collect();
        Self::from_info(&texts?.concat())
    }

    /// Run id and replication id: the first changes with a restart, the second with a promotion.
    fn from_info(info: &str) -> Option<Self> {
        let field = |name| info.lines().find_map(|line| line.trim_end().strip_prefix(name));
        let (run, replication) = (field("run_id:")?, field("master_replid:").unwrap_or_default());
        Some(Self((Fingerprint::new().text(run).text(replication).finish() & NUMBER_MAX).max(1)))
    }

    /// The number that accounts keep.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

fn text(answer: RedisResult<Value>) -> Option<String> {
    match answer.ok()? {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn restarts_and_promotions_are_other_primaries() {
        let info = |run: &str, replication: &str| {
            let text =
                format!("# Server\r\nrun_id:{run}\r\n# Replication\r\nmaster_replid:{replication}\r\n");
            Primary::from_info(&text).unwrap()
        };
        assert_eq!(info("a", "b"), info("a", "b"));
        assert_ne!(info("a", "b"), info("c", "b"));
        assert_ne!(info("a", "b"), info("a", "c"));
        assert_eq!(Primary::from_info("# Server\r\n"), None);
    }
}
