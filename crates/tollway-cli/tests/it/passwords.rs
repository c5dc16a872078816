//! Passwords of stores and engines that are kept outside of the config.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use tollway_testkit::servers::RedisServer;

use crate::doctor::codes;
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
