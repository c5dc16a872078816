//! The programs run as the guide shows them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Command;

use tollway_testkit::servers::RedisServer;

const GUIDE: &str = include_str!("../../../docs/guide/library.md");
const FROM_CONFIG: &str = include_str!("../src/bin/from-config.rs");
const SHARED_REDIS: &str = include_str!("../src/bin/shared-redis.rs");

/// The text of a fenced block of the guide that begins with `first_line`.
fn block(first_line: &str) -> &'static str {
    let begin = GUIDE.find(&format!("```{first_line}")).unwrap();
    let text = GUIDE[begin..].split_once('\n').unwrap().1;
    text.split_once("```").unwrap().0
}

/// A program that returns the error of a config prints the message that points at the wrong word.
#[test]
fn main_that_returns_a_config_error_prints_the_pointing_message() {
    let (config, said) = block("console\n$ cat tollway.toml").split_once("$ cargo run\n").unwrap();
    let config = config.split_once('\n').unwrap().1;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tollway.toml"), config).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_from-config")).current_dir(&folder).output().unwrap();
    assert_eq!(String::from_utf8(ran.stderr).unwrap(), said);
    assert_eq!(ran.status.code(), Some(1));
    assert!(FROM_CONFIG.contains("Limiter::from_config(\"tollway.toml\").await?"));
}

/// A1: the shortest program that shares a limit through Redis is the one in the guide, and its processes share the limit.
#[test]
fn processes_share_a_limit_through_redis_without_a_config_file() {
    let program = block("rust,no_run\nuse tollway::{Limiter, Taken};");
    assert!(SHARED_REDIS.ends_with(program), "the guide shows another program:\n{program}");
    let redis = RedisServer::start();
    // A busy machine may be slow: the store decides, however long it takes.
    let url = format!("{}?deadline=30s", redis.url());
    let run = || {
        let ran = Command::new(env!("CARGO_BIN_EXE_shared-redis")).env("REDIS_URL", &url).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let shown = block("console\n$ export REDIS_URL");
    let outputs = shown.split("$ cargo run\n").skip(1).map(|said| said.split(" free in").next().unwrap());
    let outputs: Vec<&str> = outputs.collect();
    assert_eq!(outputs.len(), 3);
    for said in outputs {
        assert_eq!(run().split(" free in").next(), Some(said));
    }
}
