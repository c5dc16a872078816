//! `tollway api list` and `tollway api show` as a user runs them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use serde_json::Value;
use tollway::config::{Api, FieldOrigin};

use crate::home::{Home, golden};

const CONFIG: &str = r#"
[policies.search]
limits = ["1 request / second paced"]

[apis.notion]
max_retries = 2
concurrency = 4
headers = { authorization = { env = "NOTION_TOKEN", prefix = "Bearer " }, notion-version = "2026-01-01", x-api-key = "hidden" }
endpoints = [{ match = "POST /v1/search", policy = "search", cost = { requests = 2 } }]

[apis."intern.ä"]
base_url = "http://127.0.0.1:9000/\\\"api"
rate = { initial = 2.0, min = 0.3, max = 3.5, increase_step = 0.1, decrease_factor = 0.5 }
cost = { tokens = "bytes / 4" }
limits = ["100 requests / minute paced", "250k tokens / minute bucket"]

[apis.stripe]
rate = "off"
policy = "search"
"#;

fn json(home: &Home, arguments: &[&str]) -> Value {
    let (exit, answer, beside) = home.run(arguments);
    assert_eq!(exit, 0, "{beside}");
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// D3: one registry: the config's apis, then the profiles, in 80 columns.
#[test]
fn list_has_apis_of_the_config_and_profiles() {
    let home = Home::with_config(CONFIG);
    let (exit, answer, beside) = home.run(&["api", "list"]);
    golden("api_list.txt", &answer);
    assert_eq!((exit, beside.as_str()), (0, ""));
    assert!(answer.lines().all(|line| line.chars().count() <= 80), "{answer}");
    let listed = json(&home, &["api", "list", "--json"]);
    let apis = listed["apis"].as_array().unwrap();
    assert_eq!(apis.len(), 1 + Api::profiles().len(), "two apis have the name of a profile");
    let notion = apis.iter().find(|api| api["name"] == "notion").unwrap();
    assert_eq!((&notion["from"], &notion["profile"]), (&"config".into(), &"notion".into()));
    assert_eq!(notion["rate"]["increase_step"], 0.1);
    assert!(!listed.to_string().contains("hidden"));
}

#[test]
fn profiles_need_no_config() {
    let home = Home::new();
    let (exit, answer, _) = home.run(&["api", "list"]);
    assert_eq!((exit, answer.lines().count()), (0, Api::profiles().len()));
    let (exit, answer, _) = home.run(&["api", "show", "notion"]);
    golden("api_show_profile.txt", &answer);
    assert_eq!(exit, 0);
}

/// D3: every field, and where it comes from.
#[test]
fn show_names_the_origin_of_every_field() {
    let home = Home::with_config(CONFIG);
    let (exit, answer, _) = home.run(&["api", "show", "notion"]);
    golden("api_show.txt", &answer);
    assert_eq!(exit, 0);
    assert!(Api::KEYS.iter().all(|key| answer.contains(&format!("  {key} "))), "{answer}");
    assert!(!answer.contains("hidden"));
    let shown = json(&home, &["api", "show", "notion", "--json"]);
    let fields = &shown["fields"];
    assert_eq!(
        (&fields["max_retries"]["value"], &fields["max_retries"]["from"]),
        (&2.into(), &"config".into())
    );
    assert_eq!(fields["base_url"]["from"], "profile");
    assert_eq!((&fields["timeout"]["value"], &fields["timeout"]["from"]), (&"1m".into(), &"default".into()));
    assert_eq!(fields["headers"]["value"]["authorization"]["env"], "NOTION_TOKEN");
    assert_eq!(fields["headers"]["value"]["x-api-key"], Value::Null);
    assert_eq!(shown["configured"], true);
}

#[test]
fn unknown_api_is_not_found_with_advice() {
    let home = Home::with_config(CONFIG);
    let (exit, answer, beside) = home.run(&["api", "show", "notoin"]);
    assert_eq!((exit, answer.as_str()), (66, ""));
    assert!(
        beside.contains("have an api \"notoin\"") && beside.contains("did you mean \"notion\"?"),
        "{beside}"
    );
    let (_, _, beside) = home.run(&["api", "show", "elsewhere"]);
    assert!(beside.contains("`tollway api list` lists them"), "{beside}");
}

/// What `--toml` prints is a config that means the same.
#[test]
fn toml_reads_back_as_the_same_api() {
    // A policy of the config with a rate added, and one that is made of a rate alone.
    let text = format!("{CONFIG}[policies.vanta]\nlimits = ['9 / minute']\n[apis.vanta]\n[apis.slack]\n");
    let home = Home::with_config(&text);
    let same = |name: &str, original: &Api| {
        let (exit, text, beside) = home.run(&["api", "show", name, "--toml"]);
        assert_eq!((exit, beside.as_str()), (0, ""), "{name}");
        let config = tollway::Config::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let read = config.api(name).unwrap_or_else(|| panic!("no {name} in {text}"));
        for key in Api::KEYS {
            let is_default = |api: &Api| api.origin(key) == FieldOrigin::Default;
            assert_eq!(is_default(read), is_default(original), "{name}: {key}");
        }
        assert_eq!(
            (read.base_url(), read.policy(), read.rate()),
            (original.base_url(), original.policy(), original.rate())
        );
        assert_eq!(
            (read.limits(), read.cost(), read.endpoints()),
            (original.limits(), original.cost(), original.endpoints())
        );
        assert_eq!(
            (read.timeout(), read.max_time(), read.concurrency()),
            (original.timeout(), original.max_time(), original.concurrency())
        );
        assert_eq!((read.documented(), read.dialect()), (original.documented(), original.dialect()));
        (text, config)
    };
    let config = tollway::Config::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    for api in config.apis() {
        let (text, read) = same(api.name().as_str(), api);
        assert!(!text.contains("hidden") && !text.contains("adaptive"), "{text}");
        let limits_in = |config: &tollway::Config| {
            let policy = api.policy().and_then(|name| config.policy(name.as_str()));
            policy.map(|policy| policy.limits().to_vec())
        };
        assert_eq!(limits_in(&read), limits_in(&config), "{text}");
    }
    // `shopify` has a part to fill in.
    let profiles = Api::profiles()
        .iter()
        .filter(|api| api.name().as_str() != "shopify" && config.api(api.name().as_str()).is_none());
    for profile in profiles {
        same(profile.name().as_str(), profile);
    }
    let (_, text, _) = home.run(&["api", "show", "shopify", "--toml"]);
    assert!(tollway::Config::parse(&text).unwrap_err().message().contains("{store}"));
}

#[test]
fn toml_and_json_exclude_each_other() {
    let (exit, _, beside) = Home::new().run(&["api", "show", "notion", "--toml", "--json"]);
    assert_eq!(exit, 2);
    assert!(beside.contains("cannot be used with"), "{beside}");
}
