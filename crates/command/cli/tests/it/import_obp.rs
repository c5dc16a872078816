//! `tollway policy import obp` as a user runs it.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test may fail")]

use crate::home::{Home, golden};
use tollway::core::WhenStoreFails;
use tollway_consumers::ConsumersConfig;
use tollway_server::ConfigWithServer;
use tollway_testkit::servers::RedisServer;

const PROPS: &str = include_str!("../golden/import_obp.props");

/// The config made from properties, and the messages.
fn import(home: &Home, props: &str) -> (i32, String, String) {
    home.write("default.props", props);
    home.run(&["policy", "import", "obp", "default.props"])
}

/// C6: every property of the documented table is converted, and those without a counterpart are reported.
#[test]
fn properties_file_is_converted_to_a_config() {
    let home = Home::new();
    let (exit, text, beside) = import(&home, PROPS);
    golden("import_obp.toml", &text);
    golden("import_obp.txt", &beside);
    assert_eq!(exit, 0);
    let config = ConfigWithServer::parse(&text).unwrap();
    let consumers = config.consumers().unwrap();
    assert!(consumers.enabled);
    assert_eq!(consumers.anonymous_per_hour.map(u64::from), Some(500));
    assert_eq!(consumers.defaults, [10, 100, -1, 0, -1, 200_000]);
    assert_eq!(consumers.when_store_fails, WhenStoreFails::Open);
    assert_eq!(config.limits().store().unwrap().to_string(), "redis://...:...@cache.internal:6380/0");
    home.write("tollway.toml", text);
    assert_eq!(home.run(&["policy", "check"]).0, 0);
}

/// C6: a missing property gets the documented default, and an empty file is reported.
#[test]
fn missing_properties_get_defaults() {
    let home = Home::new();
    let (exit, text, beside) = import(&home, "hostname=http://localhost:8080\n");
    assert_eq!(exit, 0, "{beside}");
    assert!(beside.contains("right file") && beside.contains("use_consumer_limits is false"), "{beside}");
    let config = ConfigWithServer::parse(&text).unwrap();
    let expected = ConsumersConfig { enabled: false, ..ConsumersConfig::default() };
    assert_eq!(config.consumers(), Some(&expected));
    assert_eq!(config.limits().store().unwrap().to_string(), "redis://127.0.0.1:6379/0");
    // No messages without a reason.
    assert_eq!(import(&home, "use_consumer_limits=true\ncache.redis.password=null\n").2, "");
}

/// C6: the password works whatever characters it has.
#[test]
fn imported_config_connects_to_redis_with_a_password() {
    let password = "p@s:s/w?o#r%d+&\"";
    let redis = RedisServer::start_with(&["--requirepass", password]);
    let home = Home::new();
    let props = format!(
        "cache.redis.port={}\ncache.redis.password=p@s:s/w?o#r%d+&\"\nrate_limiting_per_hour=2\nuse_consumer_limits=true\n",
        redis.port()
    );
    let (_, mut text, beside) = import(&home, &props);
    assert!(beside.contains("chmod 600"), "{beside}");
    text += "\n[policies.orders]\nlimits = [\"2 requests / hour from first call\"]\n";
    home.write("tollway.toml", text);
    let (exit, _, beside) = home.run(&["take", "orders", "--subject", "anna", "--max-wait", "0"]);
    assert_eq!(exit, 0, "{beside}");
    assert_eq!(redis.command(&["GET", "anna_PER_HOUR"]), "1");
}

/// C6: TLS, with conversion commands for the files in the config.
#[test]
fn java_keystores_become_pem_files_with_conversion_commands() {
    let home = Home::new();
    let props = "use_consumer_limits=true\nredis.use.ssl=true\ntruststore.path.redis=/etc/obp/trust store.jks\n\
                 keystore.path.redis=/etc/obp/keystore.jks\nkeystore.password.redis=hidden\n";
    let (exit, text, beside) = import(&home, props);
    assert_eq!(exit, 0, "{beside}");
    let url = "rediss://127.0.0.1:6379/0?layout=consumers&ca=/etc/obp/trust%20store.pem&cert=/etc/obp/keystore.pem&key=/etc/obp/keystore.key.pem";
    assert!(text.contains(&format!("url = \"{url}\"")), "{text}");
    assert!(text.contains("keytool -importkeystore -srckeystore \"/etc/obp/trust store.jks\""), "{text}");
    assert!(text.contains("-nocerts -nodes -out /etc/obp/keystore.key.pem"), "{text}");
    assert!(!text.contains("hidden") && beside.contains("PEM"), "{text}{beside}");
    assert_eq!(ConfigWithServer::parse(&text).is_ok(), cfg!(feature = "redis-tls"));
}

/// C6: an invalid value is reported with its line, and nothing is written.
#[test]
fn invalid_value_is_reported_with_its_line() {
    let home = Home::new();
    for (line, words) in [
        ("use_consumer_limits=yes", "use_consumer_limits is \"yes\": write true or false"),
        ("redis.use.ssl=1", "write true or false"),
        ("cache.redis.port=0", "write a port from 1 to 65535"),
        ("cache.redis.port=70000", "write a port from 1 to 65535"),
        ("cache.redis.url=redis://host", "without a scheme"),
        ("cache.redis.url=", "write the name"),
        ("user_consumer_limit_anonymous_access=many", "whole number"),
        ("rate_limiting_per_week=-2", "write -1"),
        ("rate_limiting_per_day=99999999999999999999", "at most"),
        ("rate_limiting_per_hour=\\u12", "four hexadecimal digits"),
    ] {
        let (exit, text, beside) = import(&home, &format!("# a file\n\n{line}\n"));
        assert_eq!((exit, text.as_str()), (65, ""), "{line}: {beside}");
        assert!(beside.contains("default.props: line 3: ") && beside.contains(words), "{line}: {beside}");
    }
    home.write("large.props", vec![b'#'; 1 << 21]);
    for (file, exit) in [("large.props", 65), ("nowhere.props", 66)] {
        assert_eq!(home.run(&["policy", "import", "obp", file]).0, exit);
    }
}

/// Other people may see a terminal: the password is hidden there, and a warning says so.
#[test]
fn password_is_hidden_on_a_terminal() {
    let home = Home::new();
    home.write("default.props", "cache.redis.password=s3cret\nuse_consumer_limits=true\n");
    let command = format!("{} policy import obp default.props", env!("CARGO_BIN_EXE_tollway"));
    // `script` runs it on its own terminal.
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(home.path());
    let output =
        script.output().unwrap_or_else(|error| panic!("script: {error}; install the package bsdutils"));
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("redis://:...@127.0.0.1") && shown.contains("not shown on a terminal"), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");
}
