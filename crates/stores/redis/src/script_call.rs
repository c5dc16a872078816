//! A script as servers know it: by its hash once they have seen it, before by its text; and as one that runs in a full
//! server.

use std::sync::OnceLock;

use redis::{Cmd, RedisResult, Value};

use crate::link::error_detail;

/// The first line of a script that runs while the server has no room. Needs Redis 7.0 or Valkey.
const MAY_RUN_IN_A_FULL_SERVER: &str = "#!lua flags=allow-oom\n";

/// A script in both forms.
pub(crate) struct Script {
    text: &'static str,
    hash: OnceLock<String>,
    for_full: OnceLock<(String, String)>,
}

impl Script {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { text, hash: OnceLock::new(), for_full: OnceLock::new() }
    }

    /// The beginning of a command that runs it. In a full server it must make no more keys than are bounded.
    pub(crate) fn call(&self, by_text: bool, in_full: bool) -> Cmd {
        let mut command = redis::cmd(if by_text { "EVAL" } else { "EVALSHA" });
        if in_full {
            let (text, hash) = self.for_full.get_or_init(|| {
                let text = format!("{MAY_RUN_IN_A_FULL_SERVER}{}", self.text);
                let hash = hash_of(&text);
                (text, hash)
            });
            command.arg(if by_text { text } else { hash });
        } else {
            command.arg(if by_text { self.text } else { self.hash.get_or_init(|| hash_of(self.text)) });
        }
        command
    }
}

/// Whether the server refused the text of a script: it is older than its first line.
pub(crate) fn is_unreadable(answer: &RedisResult<Value>) -> bool {
    let detail = error_detail(answer);
    detail.is_some_and(|detail| detail.starts_with("Error compiling script"))
}

fn hash_of(text: &str) -> String {
    redis::Script::new(text).get_hash().to_owned()
}
