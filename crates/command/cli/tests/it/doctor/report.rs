//! How it is told, and what is found without any store across a network.

use super::codes;
use crate::home::{Home, golden};

#[test]
fn invalid_or_missing_config_is_a_finding() {
    let home = Home::new();
    assert_eq!(codes(&home, &[]), ["config-wrong"]);
    home.write("tollway.toml", "[policies.a]\nlimits = [\"5 requests / fortnight\"]\n");
    assert_eq!(codes(&home, &[]), ["config-wrong"]);
    home.write("tollway.toml", "[policies.a]\nlimits = [\"5 requests / week\"]\n");
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
}

#[test]
fn finds_a_store_file_without_write_permission() {
    let home = Home::with_config("[store]\nurl = \"file:states/tollway\"\n");
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
    assert!(!home.path().join("states").exists(), "to look makes nothing");
    home.write("states", "a file where a folder should be");
    assert_eq!(codes(&home, &[]), ["state-not-writable"]);
    std::fs::remove_file(home.path().join("states")).unwrap();
    assert_eq!(home.run(&["take", "a", "--limit", "5 / minute"]).0, 0);
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
}

/// What, why and what to do, each on a line of its own.
#[test]
fn findings_as_text() {
    let home = Home::with_config("[store]\nurl = \"memory:\"\n\n[consumers]\nenabled = false\n");
    let (exit, text, beside) = home.run(&["doctor"]);
    assert_eq!((exit, beside.as_str()), (1, ""));
    golden("doctor.txt", &text);
    let (exit, text, _) = home.run(&["doctor", "--quiet", "--store", "file:state"]);
    assert!(exit == 1 && !text.contains("checked "), "{text}");
}

#[test]
fn invalid_arguments_are_reported() {
    let home = Home::with_config("");
    for arguments in
        [["--consumer", "a b"], ["--consumer", "a_PER_DAY"], ["--server", "https://h:1"], ["--server", "h"]]
    {
        let (exit, _, beside) = home.run(&[&["doctor"][..], &arguments].concat());
        assert!(exit == 2 && beside.contains(arguments[0]), "{beside}");
    }
    let (_, help, _) = home.run(&["doctor", "--help"]);
    assert!(
        help.contains("--compare") && help.contains("Exit codes") && help.contains("doctor.md"),
        "{help}"
    );
}
