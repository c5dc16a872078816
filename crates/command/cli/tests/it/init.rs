//! `tollway init` as a user runs it.

use crate::home::Home;

const KINDS: [&str; 5] = ["vendor", "api", "consumers", "envoy", "pipeline"];

#[test]
fn every_config_is_valid_and_without_warnings() {
    for kind in KINDS {
        let home = Home::new();
        let (code, answer, error) = home.run(&["init", kind]);
        assert_eq!(code, 0, "{kind}: {error}");
        assert!(answer.contains("wrote tollway.toml"), "{answer}");
        let (code, answer, error) = home.run(&["policy", "check", "--strict"]);
        assert_eq!(code, 0, "{kind}: {answer}{error}");
    }
}

#[test]
fn file_that_exists_is_kept() {
    let home = Home::with_config("# mine");
    let (code, _, error) = home.run(&["init", "vendor"]);
    assert_eq!(code, 1);
    assert!(error.contains("tollway.toml exists already, and is not overwritten"), "{error}");
    assert!(error.contains("tollway init vendor --output FILE") && !error.contains("os error"), "{error}");
    assert_eq!(std::fs::read_to_string(home.path().join("tollway.toml")).unwrap(), "# mine");
    let (code, answer, _) = home.run(&["init", "vendor", "--output", "-"]);
    assert_eq!(code, 0);
    assert!(answer.contains("[policies.vendor]"), "{answer}");
}

#[test]
fn first_command_of_a_vendor_works() {
    let home = Home::new();
    home.run(&["init", "vendor"]);
    let (code, answer, error) = home.run(&["take", "vendor"]);
    assert_eq!(code, 0, "{answer}{error}");
}
