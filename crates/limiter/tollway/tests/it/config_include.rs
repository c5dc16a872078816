//! A config of several files: `include` of paths and patterns, and what is said of mistakes in them.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use tempfile::TempDir;
use tollway::config::{CONFIG_FILES_MAX, ConfigFile};
use tollway::{Config, ConfigError, StoreUrl};

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn main_file(folder: &TempDir) -> PathBuf {
    folder.path().join("tollway.toml")
}

fn names(config: &Config) -> Vec<&str> {
    config.policies().iter().map(|policy| policy.name().as_str()).collect()
}

/// The error of a config of these files, with its folder left out.
fn error(files: &[(&str, &str)]) -> String {
    let folder = folder(files);
    let error = Config::load(main_file(&folder)).unwrap_err();
    assert!(!error.is_not_found(), "a caller would go on without a config: {error}");
    error.to_string().replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn included_files_are_one_config() {
    let folder = folder(&[
        (
            "tollway.toml",
            "include = [\n  'policies/*.toml', # [all]\n  'apis.toml',\n]\n[store]\nurl = 'file:state'\n[policies.own]\nlimits = ['1 / day']",
        ),
        ("policies/b.toml", "include = ['deeper/more.toml']\n[policies.b]\nlimits = ['2 / day']"),
        ("policies/a.toml", "[policies.a]\nlimits = ['3 / day']"),
        ("policies/.hidden.toml", "no TOML"),
        ("policies/a.toml~", "no TOML"),
        ("policies/folder.toml/x", "no TOML"),
        ("policies/deeper/more.toml", "[policies.deep]\nlimits = ['4 / day', '9 tokens / day']"),
        ("apis.toml", "[apis.caller]\nbase_url = 'https://caller.example'\npolicy = 'deep'"),
    ]);
    let file = ConfigFile::load(main_file(&folder)).unwrap();
    let shown: Vec<PathBuf> =
        file.paths().map(|path| path.strip_prefix(folder.path()).unwrap().to_owned()).collect();
    let files =
        ["tollway.toml", "policies/a.toml", "policies/b.toml", "apis.toml", "policies/deeper/more.toml"];
    assert_eq!(shown, files.map(PathBuf::from));
    let config = file.into_config();
    assert_eq!(names(&config), ["a", "b", "deep", "own"]);
    assert!(config.api("caller").is_some());
    // Paths start at the folder of the first file.
    assert_eq!(config.store(), Some(&StoreUrl::File(folder.path().join("state"))));
}

#[test]
fn a_pattern_without_files_is_no_mistake_and_a_missing_file_is() {
    let empty = folder(&[("tollway.toml", "include = ['policies/*.toml']"), ("policies/none", "")]);
    assert!(Config::load(main_file(&empty)).unwrap().policies().is_empty());
    assert_eq!(
        error(&[("tollway.toml", "include = ['gone.toml', 'gone/*.toml', '*/a.toml', 7, 'policies/']")]),
        "tollway.toml:1:52: `include` must be a list of paths, not a whole number; write it like `include = [\"policies/*.toml\"]`
  1 | include = ['gone.toml', 'gone/*.toml', '*/a.toml', 7, 'policies/']
    |                                                    ^"
    );
    assert_eq!(
        error(&[("tollway.toml", "include = ['gone.toml', 'gone/*.toml', '*/a.toml', 'policies/']")]),
        "tollway.toml:1:12: gone.toml is included here, but there is no such file; check the path
  1 | include = ['gone.toml', 'gone/*.toml', '*/a.toml', 'policies/']
    |            ^^^^^^^^^^^
tollway.toml:1:25: no file of gone/ can be included: there is no such folder; check the path
  1 | include = ['gone.toml', 'gone/*.toml', '*/a.toml', 'policies/']
    |                         ^^^^^^^^^^^^^
tollway.toml:1:40: only the name of a file may have a `*`, not a folder of \"*/a.toml\"; write it like `include = [\"policies/*.toml\"]`
  1 | include = ['gone.toml', 'gone/*.toml', '*/a.toml', 'policies/']
    |                                        ^^^^^^^^^^
tollway.toml:1:52: \"policies/\" names no file; write it like `include = [\"policies/*.toml\"]`
  1 | include = ['gone.toml', 'gone/*.toml', '*/a.toml', 'policies/']
    |                                                    ^^^^^^^^^^^"
    );
}

#[test]
fn a_duplicate_is_named_with_both_places() {
    let policy = "[policies.adobe]\nlimits = ['1 / day']";
    assert_eq!(
        error(&[
            ("tollway.toml", "include = ['more.toml']\n[store]\nurl = 'memory:'\n[policies.adobe]\nlimits = ['2 / day']"),
            ("more.toml", &format!("# ours\n{policy}\n[store]\nurl = 'memory:'")),
        ]),
        "more.toml:2:11: policies.adobe is in two files of this config; the other place is tollway.toml:4:11; remove one of the two
  2 | [policies.adobe]
    |           ^^^^^
more.toml:5:1: store.url is in two files of this config; the other place is tollway.toml:3:1; remove one of the two
  5 | url = 'memory:'
    | ^^^"
    );
}

#[test]
fn a_loop_and_a_file_included_twice_are_named_with_both_places() {
    assert_eq!(
        error(&[
            ("tollway.toml", "include = ['a.toml']"),
            ("a.toml", "# to b\ninclude = ['sub/b.toml']"),
            ("sub/b.toml", "include = ['../a.toml']"),
        ]),
        "sub/b.toml:1:12: sub/../a.toml includes itself: a.toml:2:12 includes sub/b.toml; remove one of the two
  1 | include = ['../a.toml']
    |            ^^^^^^^^^^^"
    );
    let own = error(&[("tollway.toml", "include = ['*.toml']")]);
    assert!(own.starts_with("tollway.toml:1:12: tollway.toml includes itself; leave it out"), "{own}");
    let twice = error(&[("tollway.toml", "include = ['a.toml', '*a.toml']"), ("a.toml", "")]);
    let message =
        "tollway.toml:1:22: a.toml is included twice; the other place is tollway.toml:1:12; remove one";
    assert!(twice.starts_with(message), "{twice}");
}

/// Every mistake says which file it is in.
#[test]
fn mistakes_of_several_files_are_listed_in_order() {
    let error = error(&[
        ("tollway.toml", "include = ['b.toml', 'c.toml']\n[policies.a]\nlimits = ['1 / dai']"),
        ("b.toml", "[policies.b]\n\nlimits = ['1 / day', \"é: 2 / huor\"]"),
        ("c.toml", "[apis.x]\nbase_url = 'https://x.example'\npolicy = 'nothing'\n[polices.x]"),
    ]);
    let places: Vec<&str> = error.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(
        places,
        [
            "tollway.toml:3:16: \"dai\" is not a period; did you mean \"day\"?",
            "b.toml:3:30: \"huor\" is not a period; did you mean \"hour\"?",
            "c.toml:3:11: there is no policy \"nothing\" in this file; expected one of a, b",
            "c.toml:4:2: \"polices\" is not a section of the file; did you mean \"policies\"?",
        ]
    );
    assert!(
        error
            .contains("  3 | limits = ['1 / day', \"é: 2 / huor\"]\n    |                              ^^^^"),
        "{error}"
    );
    let syntax =
        self::error(&[("tollway.toml", "include = ['b.toml']"), ("b.toml", "[policies.b]\nlimits = =")]);
    assert!(syntax.starts_with("b.toml:2:10: not valid TOML"), "{syntax}");
}

#[test]
fn a_text_without_a_file_includes_nothing() {
    let error = Config::parse("include = ['a.toml']").unwrap_err();
    assert_eq!(error.message(), "only a file can include others");
    let misspelt = Config::parse("includes = ['a.toml']").unwrap_err();
    assert_eq!(misspelt.advice(), Some("did you mean \"include\"?"));
}

#[test]
fn the_number_of_files_is_bounded() {
    let folder = folder(&[("tollway.toml", "include = ['p/*.toml']"), ("p/none", "")]);
    for n in 0..CONFIG_FILES_MAX {
        let text = if n == 0 { String::new() } else { format!("[policies.p{n}]\nlimits = ['1 / day']") };
        fs::write(folder.path().join(format!("p/{n}.toml")), text).unwrap();
    }
    let error = Config::load(main_file(&folder)).unwrap_err().to_string();
    assert!(error.contains("a config of more than 1024 files is not read"), "{error}");
    fs::remove_file(folder.path().join("p/0.toml")).unwrap();
    assert_eq!(Config::load(main_file(&folder)).unwrap().policies().len(), CONFIG_FILES_MAX - 1);
}

/// An earlier version lies elsewhere, and includes what the current one does.
#[test]
fn an_earlier_version_includes_the_files_of_the_current_folder() {
    let folder = folder(&[
        ("tollway.toml", "include = ['p/*.toml']"),
        ("p/a.toml", "[policies.a]\nlimits = ['1 / day']"),
        ("elsewhere/old.toml", "include = ['p/*.toml']\n[policies.old]\nlimits = ['1 / day']"),
    ]);
    let old = Config::load_earlier(folder.path().join("elsewhere/old.toml"), &main_file(&folder)).unwrap();
    assert_eq!(names(&old), ["a", "old"]);
}

/// A3: a change of any file is seen, and files that come and go; a wrong one keeps the old config.
#[test]
fn included_files_are_watched() {
    let folder = folder(&[
        ("tollway.toml", "include = ['p/*.toml']"),
        ("p/a.toml", "[policies.a]\nlimits = ['1 / day']"),
    ]);
    let (tell, news) = channel::<Result<Config, ConfigError>>();
    let file = ConfigFile::load(main_file(&folder)).unwrap();
    let _watch = file.watch(Duration::from_millis(20), move |change| drop(tell.send(change))).unwrap();
    // Only so that a test that fails ends.
    let next = || news.recv_timeout(Duration::from_secs(60)).unwrap();
    let becomes = |expected: &[&str]| while next().is_ok_and(|config| names(&config) != expected) {};
    let place = |name: &str, text: &str| {
        fs::write(folder.path().join("new"), text).unwrap();
        fs::rename(folder.path().join("new"), folder.path().join(name)).unwrap();
    };
    place("p/b.toml", "[policies.b]\nlimits = ['1 / day']");
    becomes(&["a", "b"]);
    place("p/a.toml", "[policies.c]\nlimits = ['1 / day']");
    becomes(&["b", "c"]);
    fs::remove_file(folder.path().join("p/b.toml")).unwrap();
    becomes(&["c"]);
    place("p/d.toml", "[policies.c]\nlimits = ['1 / day']");
    let error = next().unwrap_err();
    assert!(error.to_string().contains("policies.c is in two files"), "{error}");
    assert_eq!(error.problems()[0].file().and_then(Path::file_name), Some("d.toml".as_ref()));
    fs::remove_file(folder.path().join("p/d.toml")).unwrap();
    becomes(&["c"]);
}
