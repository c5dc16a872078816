//! The `Containerfile` names what exists. No test builds it: that needs a container engine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::read_to_string;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

fn read(path: &str) -> String {
    read_to_string(format!("{ROOT}/{path}")).unwrap()
}

/// The word behind this one.
fn after<'a>(text: &'a str, word: &str) -> &'a str {
    text.split_whitespace().skip_while(|known| *known != word).nth(1).unwrap()
}

#[test]
fn container_file_names_what_exists() {
    let file = read("Containerfile");
    let manifest = read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    assert!(manifest.contains(&format!("name = \"{}\"", after(&file, "--package"))), "{file}");
    for feature in after(&file, "--features").split(',') {
        assert!(manifest.contains(&format!("\n{feature} = [")), "no feature {feature}");
    }
    let profile = after(&file, "--profile");
    assert!(read("Cargo.toml").contains(&format!("[profile.{profile}]")), "no profile {profile}");
    let copied = file.lines().find(|line| line.starts_with("COPY --from=build")).unwrap();
    let [.., from, to] = copied.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{copied}") };
    assert_eq!(from, format!("/src/target/{profile}/tollway"));
    assert!(file.contains(&format!("ENTRYPOINT [\"{to}\"]")), "{to}");
    // `COPY . .` must not copy a build of gigabytes.
    assert!(read(".dockerignore").lines().any(|line| line == "target"));
}

#[test]
fn container_does_not_run_as_root() {
    let file = read("Containerfile");
    let last_stage = file.rsplit("\nFROM ").next().unwrap();
    let user = after(last_stage, "USER");
    assert!(user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "{user}");
}
