//! Passwords of stores and engines that are kept outside of the config.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use tollway_testkit::servers::{PostgresServer, RedisServer};

use crate::doctor::{codes, doctor};
use crate::home::Home;
use crate::serve::serving::Serving;

const PASSWORD: &str = "hush/hu@sh:%";

/// A changed password needs a restart, which a reload says.
#[test]
fn password_of_redis_is_read_from_a_file_or_a_variable() {
    let redis = RedisServer::start_with(&["--requirepass", PASSWORD]);
    let config = |source: &str| {
        let store = format!("[store]\nurl = 'redis://127.0.0.1:{}'\npassword = '{source}'\n", redis.port());
        format!("{store}[policies.api]\nlimits = ['1000 / hour']\nwhen_store_fails = 'closed'\n")
    };
    let home = Home::with_config(&config("file:redis.password"));
    home.write("redis.password", format!("{PASSWORD}\n"));
    assert_eq!(home.run(&["take", "api"]).0, 0);
    assert!(!codes(&home, &[]).iter().any(|code| code.starts_with("store-")), "{:?}", codes(&home, &[]));

    let serving = Serving::start(&home, &["--listen", "127.0.0.1:0"]);
    assert_eq!(serving.take("api"), 200);
    serving.signal("-HUP");
    serving.until_logged("config file reloaded");
    home.write("redis.password", "another");
    serving.signal("-HUP");
    serving.until_logged("or a password of theirs; restart the server to apply it");
    assert_eq!(serving.take("api"), 200);
    let said = serving.lines.join("\n");
    let (code, log) = serving.stop();
    assert_eq!(code, Some(0));
    assert!(!log.contains("hush") && !said.contains("hush") && !log.contains("another"), "{said}{log}");
    assert_ne!(home.run(&["take", "api"]).0, 0, "the password is wrong now");

    home.write("tollway.toml", config("env:MY_REDIS_PASSWORD"));
    let taken = home.tollway(&["take", "api"]).env("MY_REDIS_PASSWORD", PASSWORD).output().unwrap();
    assert!(taken.status.success(), "{taken:?}");
    let (code, _, error) = home.run(&["take", "api"]);
    assert!(code != 0 && error.contains("env:MY_REDIS_PASSWORD"), "{error}");
    // The config can be checked where the password is not.
    assert_eq!(home.run(&["policy", "check"]).0, 0);
}

#[test]
#[cfg(feature = "pipeline")]
fn password_of_an_engine_that_cannot_be_read_is_named() {
    let config = "[pipelines.docs]\nengine = 'postgres://me@127.0.0.1:1/db'\nengine_password = 'file:engine.password'\n\
        [[pipelines.docs.stages]]\nname = 'one'\nhandler = { command = ['cat'] }\n";
    let home = Home::with_config(config);
    let (code, _, error) = home.run(&["pipeline", "status"]);
    assert!(code != 0 && error.contains("engine.password cannot be used: No such file"), "{error}");
}

/// Right, wrong and missing passwords of a role that must show one, from a file and from a variable: what is wrong is said with
/// what to do, and no password is shown.
#[test]
#[cfg(all(feature = "pipeline", feature = "postgres"))]
fn passwords_of_an_engine_and_of_records_reach_a_postgres_that_demands_them() {
    let postgres = PostgresServer::start();
    postgres.require_password("jobs", PASSWORD);
    let config = |source: &str, line: &str| {
        let url = format!("postgres://jobs@127.0.0.1:{}/postgres", postgres.port());
        let engine = format!("[pipelines.docs]\nengine = '{url}'\n{line}");
        let stage = "[[pipelines.docs.stages]]\nname = 'one'\nhandler = { command = ['cat'] }\n";
        let records = format!("[consumers]\nheader = 'x-consumer-id'\nrecords = '{url}'\n");
        let line = line.replace("engine_", "records_");
        let limits = "[policies.api]\nlimits = ['9 / hour']\n";
        format!("[store]\nurl = 'file:state'\n{limits}{engine}{stage}{records}{line}")
            .replace("SOURCE", source)
    };
    let home = Home::with_config(&config("file:jobs.password", "engine_password = 'SOURCE'\n"));
    home.write("jobs.jsonl", "{\"key\": \"a\"}\n");
    let enqueue = ["pipeline", "enqueue", "jobs.jsonl"];
    let records_problem = || {
        let (_, answer) = doctor(&home, &[]);
        let mut findings = answer["findings"].as_array().unwrap().iter();
        findings.find(|finding| finding["code"] == "records-unreachable").map(ToString::to_string)
    };

    home.write("jobs.password", format!("{PASSWORD}\n"));
    let (code, _, error) = home.run(&enqueue);
    assert_eq!(code, 0, "{error}");
    assert_eq!(records_problem(), None);
    let serving = Serving::start(&home, &["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let told = serving.ask("administration", "GET /v1/consumers/anna/records", "", "");
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    drop(serving);

    // Of the file: wrong, and away. Of the variable: wrong, and not set.
    let refused = |set: Option<&str>, expected: &str| {
        let mut command = home.tollway(&enqueue);
        command.envs(set.map(|password| ("MY_PASSWORD", password)));
        let output = command.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        let shown = format!("{error}{}", records_problem().unwrap_or_default());
        assert!(!output.status.success() && error.contains(expected), "{expected}: {shown}");
        assert!(!shown.contains("hush") && !shown.contains("wrong-one"), "{shown}");
    };
    let check = "check user and password (";
    home.write("jobs.password", "wrong-one");
    refused(None, check);
    assert!(records_problem().unwrap().contains(check), "{:?}", records_problem());
    std::fs::remove_file(home.path().join("jobs.password")).unwrap();
    refused(None, "jobs.password cannot be used: No such file");
    assert!(records_problem().unwrap().contains("jobs.password cannot be used"), "{:?}", records_problem());

    home.write("tollway.toml", config("env:MY_PASSWORD", "engine_password = 'SOURCE'\n"));
    refused(Some("wrong-one"), check);
    refused(None, "env:MY_PASSWORD");
    assert!(records_problem().unwrap().contains("env:MY_PASSWORD"), "{:?}", records_problem());
    let taken = home.tollway(&enqueue).env("MY_PASSWORD", PASSWORD).output().unwrap();
    assert!(taken.status.success(), "{taken:?}");

    // No password at all.
    home.write("tollway.toml", config("", ""));
    refused(None, "password");
}

/// A config that holds the password itself, or two of them, is refused without repeating it.
#[test]
fn wrong_passwords_in_a_config_are_not_shown() {
    for (store, said) in [
        ("url = 'redis://h'\npassword = 'hunter2'", "where the secret is"),
        ("url = 'redis://:hunter2@h'\npassword = 'env:X'", "a password already"),
        ("url = 'file:state'\npassword = 'env:X'", "only Redis and Postgres"),
        ("password = 'env:X'", "url"),
    ] {
        let home = Home::with_config(&format!("[store]\n{store}\n"));
        let (code, answer, error) = home.run(&["policy", "check"]);
        let shown = format!("{answer}{error}");
        assert!(code != 0 && shown.contains(said) && !shown.contains("hunter2"), "{store}: {shown}");
    }
}
