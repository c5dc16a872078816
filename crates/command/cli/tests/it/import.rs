//! `tollway policy import` as a user runs it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::time::Duration;

use crate::home::{Home, golden};
use serde_json::Value;
use tollway_server::{ConfigWithServer, DescriptorTarget};

const SHOP: &str = include_str!("../golden/import_envoy.yaml");

/// B10: every setting in a file of Envoy's service becomes a rule, or is reported without a counterpart.
#[test]
fn envoy_file_is_converted_to_a_config() {
    let home = Home::new();
    home.write("shop.yaml", SHOP);
    let (exit, config, beside) = home.run(&["policy", "import", "envoy", "shop.yaml"]);
    golden("import_envoy.toml", &config);
    golden("import_envoy.txt", &beside);
    assert_eq!(exit, 0);
    let config = ConfigWithServer::parse(&config).unwrap();
    let targets = config.server().unwrap().descriptors.iter().map(|rule| &rule.target);
    let counted = targets.filter(|target| matches!(target, DescriptorTarget::Policy { .. })).count();
    assert_eq!((counted, config.limits().policies().len()), (6, 6));
    home.write("tollway.toml", home.run(&["policy", "import", "envoy", "shop.yaml"]).1);
    assert_eq!(home.run(&["policy", "check"]).0, 0);
}

#[test]
fn several_files_become_one_config() {
    let home = Home::new();
    let domain = |name: &str| {
        format!(
            "domain: {name}\ndescriptors:\n  - key: k\n    rate_limit: {{ unit: day, requests_per_unit: 1 }}\n"
        )
    };
    home.write("a.yaml", domain("a"));
    home.write("b.yaml", domain("b"));
    let (exit, answer, _) = home.run(&["policy", "import", "envoy", "--json", "a.yaml", "b.yaml"]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let config = ConfigWithServer::parse(answer["config"].as_str().unwrap()).unwrap();
    let domains: Vec<&str> =
        config.server().unwrap().descriptors.iter().map(|rule| rule.domain.as_str()).collect();
    assert_eq!((exit, domains, &answer["notes"]), (0, vec!["a", "b"], &Value::Array(Vec::new())));
    let (exit, config, beside) = home.run(&["policy", "import", "envoy", "a.yaml", "a.yaml"]);
    assert_eq!((exit, config.as_str()), (65, ""));
    assert!(beside.contains("two files"), "{beside}");
}

/// A file that is not of Envoy's service is reported with its place, and nothing is written.
#[test]
fn unknown_file_format_is_rejected() {
    let home = Home::new();
    for (text, words) in [
        ("domain: d\ndescriptors:\n  - key: k\n    colour: red\n", "colour"),
        ("domain: d\ndescriptors:\n  - value: v\n", "key"),
        ("descriptors: []\n", "domain"),
        ("domain: \"\"\n", "empty"),
        (
            "domain: d\ndescriptors:\n  - key: k\n    rate_limit: { unit: fortnight, requests_per_unit: 1 }\n",
            "fortnight",
        ),
        (
            "domain: d\ndescriptors:\n  - key: k\n    rate_limit: { unit: day, requests_per_unit: -1 }\n",
            "requests_per_unit",
        ),
        ("domain: [d\n", "shop.yaml"),
        ("\0", "shop.yaml"),
    ] {
        home.write("shop.yaml", text);
        let (exit, config, beside) = home.run(&["policy", "import", "envoy", "shop.yaml"]);
        assert_eq!((exit, config.as_str()), (65, ""), "{text}: {beside}");
        assert!(beside.contains(words), "{text}: {beside}");
    }
    home.write("shop.yaml", vec![b'#'; 1 << 21]);
    assert_eq!(home.run(&["policy", "import", "envoy", "shop.yaml"]).0, 65);
    assert_eq!(home.run(&["policy", "import", "envoy", "nowhere.yaml"]).0, 66);
    assert_eq!(home.run(&["policy", "import", "envoy"]).0, 2);
}

/// An endless file is refused after its first megabyte. A named pipe and a device have no length to check beforehand.
#[test]
fn oversized_file_is_rejected() {
    let home = Home::new();
    for format in ["envoy", "obp"] {
        let mut import = home.tollway(&["policy", "import", format, "/dev/zero"]);
        let output = import.timeout(Duration::from_secs(10)).output().unwrap();
        let beside = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(65), "{format}: {beside}");
        assert!(beside.contains("/dev/zero: it has more than the 1048576 bytes"), "{format}: {beside}");
    }
}
