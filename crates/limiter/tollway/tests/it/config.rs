//! The config file: the good ones, and for every mistake the exact text that a user sees.
#![allow(clippy::panic, reason = "helpers of tests may fail the test")]

use std::fs;
use std::path::{Path, PathBuf};

use tollway::config::{Api, ApiRate, CONFIG_BYTES_MAX};
use tollway::{Config, StoreUrl};
use tollway_core::{Name, Policy, Span, WhenStoreFails};

fn policy<'a>(config: &'a Config, name: &str) -> &'a Policy {
    config.policy(name).unwrap_or_else(|| panic!("no policy {name}"))
}

fn limits(config: &Config, name: &str) -> Vec<String> {
    policy(config, name).limits().iter().map(ToString::to_string).collect()
}

#[test]
fn the_design_example_parses() {
    let config = Config::load("tests/config/good/design.toml").unwrap();
    assert_eq!(config.store(), Some(&StoreUrl::Memory { lines: None }));
    let names: Vec<&str> = config.policies().iter().map(|policy| policy.name().as_str()).collect();
    assert_eq!(names, ["adobe", "gemini"]);
    assert_eq!(limits(&config, "adobe"), ["200 requests / minute"]);
    assert_eq!(
        limits(&config, "gemini"),
        [
            "5 requests / minute bucket",
            "250000 tokens / minute bucket",
            "rpd: 25 requests / day in America/Los_Angeles"
        ]
    );
    assert_eq!(policy(&config, "adobe").max_wait(), Span::from_mins(10));
}

#[test]
fn every_key_reaches_its_policy_however_it_is_spelt() {
    let config = Config::load("tests/config/good/other_spellings.toml").unwrap();
    assert_eq!(config.store(), Some(&StoreUrl::File("tests/config/good/tollway.state".into())));
    assert_eq!(limits(&config, "notion"), ["250000 tokens / 5 minutes bucket burst 500000"]);
    assert_eq!(limits(&config, "slots"), ["16 concurrent expires 5m"]);
    let notion = policy(&config, "notion");
    assert_eq!((notion.max_wait(), notion.edge()), (Span::ZERO, Span::from_millis(250)));
    assert!(notion.shadow());
    assert_eq!(notion.when_store_fails(), WhenStoreFails::Closed);
    assert_eq!(policy(&config, "slots").when_store_fails(), WhenStoreFails::Local);
}

/// B1: a policy's slot and what becomes of takes over several; text of callers has no part in it.
#[test]
#[cfg(feature = "redis")]
fn slots_are_read_and_what_cannot_share_one_is_found() {
    let config = |store: &str| {
        let policies = "[policies.a]\nlimits = ['9 / day']\nslot = 'shop'\n[policies.b]\nlimits = ['9 / day']\n\
                        [policies.c]\nlimits = ['9 / day']\nslot = 'subject-prefix:/'";
        Config::parse(&format!("[store]\nurl = 'redis+cluster://h'\n{store}{policies}")).unwrap()
    };
    let refuses = config("");
    assert_eq!(policy(&refuses, "a").cluster_slot().to_string(), "shop");
    assert_eq!(policy(&refuses, "c").cluster_slot().to_string(), "subject-prefix:/");
    let subject = |text: &str| tollway_core::Subject::new(text).unwrap();
    let conflict = refuses.slot_conflict(["a", "b"], &subject("ann")).unwrap();
    assert!(
        conflict.advice().starts_with("write `slot = \"shop\"` under both [policies.a] and [policies.b]")
    );
    assert_eq!(refuses.slot_conflict(["b", "c"], &subject("ann")), None);
    assert!(refuses.slot_conflict(["b", "c"], &subject("acme/ann")).is_some());
    let undoes = config("across_slots = 'undo'\n");
    assert_eq!(undoes.slot_conflict(["a", "b"], &subject("ann")), None);
    let (refuses, undoes) = (refuses.store().unwrap(), undoes.store().unwrap());
    assert!(refuses.refuses_across_slots() && !undoes.refuses_across_slots() && undoes.undoes_across_slots());
    assert!(!"redis+cluster://h?prefix=%7Bone%7D:".parse::<StoreUrl>().unwrap().refuses_across_slots());
}

/// D3: one registry of APIs with five rate settings; numbers are kept exactly.
#[test]
fn apis_are_read_and_kept() {
    let config = Config::load("tests/config/good/apis.toml").unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<&str> = config.apis().iter().map(|api| api.name().as_str()).collect();
    assert_eq!(names, ["adobe", "counted", "notion", "whole"]);
    let api = |name| config.api(name).unwrap_or_else(|| panic!("no api {name}"));
    let notion = api("notion");
    assert_eq!(notion.base_url(), "https://api.notion.com/v1");
    assert_eq!(notion.policy().map(Name::as_str), Some("notion"));
    assert_eq!(notion.documented(), Some("about 3 requests a second per integration"));
    assert_eq!(settings(notion), ["2", "0.3", "3.5", "0.1", "0.5"]);
    assert_eq!(settings(api("whole")), ["1", "1", "16", "0.1", "1"]);
    assert_eq!(api("adobe").rate(), Some(ApiRate::Auto));
    assert_eq!(api("adobe").policy().map(Name::as_str), Some("adobe"));
    assert_eq!(limits(&config, "adobe"), ["3 requests / second adaptive"]);
    assert_eq!((api("counted").rate(), api("counted").documented()), (None, None));
    assert_eq!(config.api("gemini"), None);
}

fn settings(api: &Api) -> [String; 5] {
    let Some(ApiRate::By(rate)) = api.rate() else { panic!("{} has no settings", api.name()) };
    [rate.initial(), rate.min(), rate.max(), rate.increase_step(), rate.decrease_factor()]
        .map(|setting| setting.to_string())
}

#[test]
fn the_example_file_parses() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tollway.example.toml");
    let config = Config::load(path).unwrap_or_else(|error| panic!("{error}"));
    assert!(!config.policies().is_empty());
}

/// Sections of crates that this program does not link are ignored.
#[test]
fn sections_of_other_crates_are_skipped() {
    let text =
        "[policies.a]\nlimits = ['9 / minute']\n[server]\nlisten = 7\nlimits = 1\n[consumers]\ncolour = 1";
    assert_eq!(Config::parse(text).unwrap().policies().len(), 1);
    let error = Config::parse("[sever]").unwrap_err();
    assert_eq!(error.advice(), Some("did you mean \"server\"?"));
}

#[test]
fn an_empty_file_is_a_config_without_policies() {
    assert_eq!(Config::parse(""), Ok(Config::default()));
}

/// D3 (a factor outside (0, 1] is refused, and every other number that cannot be), among many others.
///
/// Each `wrong/NAME.toml` fails with exactly the text of `wrong/NAME.txt`. With `TOLLWAY_BLESS` set, the texts are
/// written instead; read the difference before you keep it.
#[test]
fn every_mistake_has_its_message() {
    let mut fixtures: Vec<PathBuf> = fs::read_dir("tests/config/wrong")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    fixtures.sort();
    assert!(fixtures.len() >= 25, "only {} fixtures were found", fixtures.len());
    for path in fixtures {
        let Err(error) = Config::load(&path) else { panic!("{} is taken for right", path.display()) };
        let text = format!("{error}\n");
        let beside = path.with_extension("txt");
        if std::env::var_os("TOLLWAY_BLESS").is_some() {
            fs::write(&beside, &text).unwrap();
        }
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(text, expected, "{}", path.display());
    }
}

/// Errors are logged, and a webhook's URL often holds a token.
#[test]
fn errors_keep_no_part_of_a_webhook() {
    for name in ["incidents", "incidents_webhook"] {
        let error = Config::load(format!("tests/config/wrong/{name}.toml")).unwrap_err();
        assert!(!format!("{error:?} {error}").contains("hidden"), "{error:?}");
    }
}

#[test]
fn an_error_has_parts() {
    let error = Config::load("tests/config/wrong/period.toml").unwrap_err();
    assert_eq!(error.file(), Some(Path::new("tests/config/wrong/period.toml")));
    assert_eq!((error.line(), error.column(), error.word()), (Some(7), Some(27), "minit"));
    assert_eq!(error.message(), "\"minit\" is not a period");
    assert_eq!(error.advice(), Some("did you mean \"minute\"?"));
    assert_eq!(error.problems().len(), 1);
}

#[test]
fn unreadable_files_have_distinct_errors() {
    let missing = Config::load("tests/config/nowhere.toml").unwrap_err();
    assert!(missing.is_not_found());
    assert_eq!(missing.to_string(), "tests/config/nowhere.toml: there is no such file");
    assert_eq!(missing.line(), None);

    let folder = Config::load("tests/config").unwrap_err();
    assert!(!folder.is_not_found());
    assert!(folder.message().starts_with("the file cannot be read"), "{folder}");

    let found = Config::find(Some(Path::new("tests/config/nowhere.toml"))).unwrap_err();
    assert!(found.is_not_found());
    assert!(Config::find(Some(Path::new("tests/config/good/design.toml"))).is_ok());
}

#[test]
fn a_file_over_its_bound_or_not_utf_8_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollway.toml");
    let comment = |bytes: usize| format!("#{}", "x".repeat(bytes - 1));
    fs::write(&path, comment(CONFIG_BYTES_MAX)).unwrap();
    assert!(Config::load(&path).is_ok());
    fs::write(&path, comment(CONFIG_BYTES_MAX + 1)).unwrap();
    assert!(Config::load(&path).unwrap_err().message().contains("more than 33554432 bytes"));
    assert!(Config::parse(&comment(CONFIG_BYTES_MAX + 1)).is_err());

    fs::write(&path, b"[store]\nurl = \"\xff\"").unwrap();
    let error = Config::load(&path).unwrap_err();
    assert_eq!((error.line(), error.column()), (Some(2), Some(8)));
    assert!(error.message().contains("not UTF-8"));
}

/// A file that was cut off anywhere is read or refused, and what is wrong with it can be shown.
#[test]
fn a_file_cut_anywhere_is_read_or_refused() {
    let folders = ["tests/config/wrong", "tests/config/good"];
    for entry in folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()) {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for (end, _) in text.char_indices() {
            if let Err(error) = Config::parse(&text[..end]) {
                assert!(error.line().is_some_and(|line| line <= text.lines().count() + 1));
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

/// As large as most generated files: the largest would make the test slow.
const HOSTILE_BYTES: usize = 1 << 20;

/// Large wrong files end soon and with a text that can be read.
#[test]
fn hostile_files_are_refused_briefly() {
    let nested = "[".repeat(HOSTILE_BYTES / 2);
    let long_word = format!("{} = 1", "k".repeat(HOSTILE_BYTES / 2));
    let keys: String = (0..90_000).map(|n| format!("k{n}=1\n")).collect();
    let limits = format!("[policies.a]\nlimits = [{}]", "1,".repeat(HOSTILE_BYTES / 4));
    let slips = "= ".repeat(HOSTILE_BYTES / 4);
    let dotted = format!("{}a = 1", "a.".repeat(10_000));
    for text in [nested, long_word, keys, limits, slips, dotted] {
        let error = Config::parse(&text).unwrap_err().to_string();
        assert!(error.len() < 50_000, "{} bytes", error.len());
    }
}
