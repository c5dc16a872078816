//! Behaviour of every subcommand: help with examples, completions, a manual page, JSON errors, colours on terminals only.
#![allow(clippy::unwrap_used, missing_docs)]

use std::process::Command;

use crate::home::Home;

const COMMANDS: &[&str] = &[
    #[cfg(feature = "pipeline")]
    "demo",
    #[cfg(feature = "gateway")]
    "gateway",
    "dashboard",
    "take",
    "run",
    "usage",
    "why",
    "limit",
    "policy",
    "api",
    "incidents",
    "plan",
    "simulate",
    #[cfg(feature = "vendor")]
    "vendor",
    "doctor",
    "provision",
];

#[test]
fn help_lists_every_command_and_the_exit_codes() {
    let home = Home::new();
    let (exit, help, _) = home.run(&["--help"]);
    assert_eq!(exit, 0);
    for command in COMMANDS {
        assert!(help.contains(&format!("  {command} ")), "{command}");
        let (exit, help, _) = home.run(&[command, "--help"]);
        assert_eq!(exit, 0);
        assert!(help.contains("Usage: tollway") && help.contains("--json"), "{help}");
    }
    for code in ["  65 ", "  69 ", "  75 ", "  78 ", "  126, 127 "] {
        assert!(help.contains(code), "{code}");
    }
}

#[test]
fn completions_and_manual_cover_every_command() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (exit, script, _) = home.run(&["completions", shell]);
        assert_eq!(exit, 0);
        assert!(script.contains("TOLLWAY_COMPLETE") && script.contains("tollway"), "{shell}: {script}");
    }
    // In a file: it is longer than an argument may be.
    let script = home.write("completions.bash", home.run(&["completions", "bash"]).1);
    assert!(Command::new("bash").arg("-n").arg(script).status().unwrap().success());
    let (exit, page, _) = home.run(&["man"]);
    assert_eq!(exit, 0);
    assert!(page.starts_with(".ie") && page.contains(".TH tollway 1"), "{}", &page[..200]);
    assert_eq!(home.run(&["man", "--into", "pages"]).0, 0);
    for command in COMMANDS {
        assert!(home.path().join(format!("pages/tollway-{command}.1")).exists(), "{command}");
    }
}

/// The words that fit after these, as the script of bash asks for them.
fn completed(home: &Home, words: &[&str]) -> Vec<String> {
    let index = words.len().to_string();
    let mut command = home.tollway(&[&["--", "tollway"], words].concat());
    command.env("TOLLWAY_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", index).env("_CLAP_IFS", "\n");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(|word| word.trim_end().to_owned()).collect()
}

#[test]
fn completions_know_commands_and_names_of_the_config() {
    let config = "policies.adobe.limits = ['9 / minute']\npolicies.api.limits = ['5 / hour']";
    let home = Home::with_config(config);
    let commands = completed(&home, &[""]);
    assert!(COMMANDS.iter().all(|command| commands.iter().any(|word| word == command)), "{commands:?}");
    for command in ["take", "run", "usage", "why", "reset"] {
        assert_eq!(completed(&home, &[command, "a"]), ["adobe", "api"], "{command}");
    }
    assert_eq!(completed(&home, &["plan", "--policy", "ad"]), ["adobe"]);
    assert_eq!(
        completed(&home, &["limit", "set", "a"]),
        ["adobe.requests_per_minute", "api.requests_per_hour"]
    );
    home.write("other.toml", "policies.alone.limits = ['9 / minute']");
    assert_eq!(completed(&home, &["take", "--config", "other.toml", "a"]), ["alone"]);
    home.write("tollway.toml", "not a config");
    assert_eq!(completed(&home, &["take", "a"]), [] as [&str; 0], "a config that cannot be read");
}

#[test]
fn version_is_text_or_json() {
    let home = Home::new();
    let (exit, text, _) = home.run(&["--version"]);
    let version = text.trim().strip_prefix("tollway ").unwrap().to_owned();
    assert_eq!(exit, 0);
    for order in [["--version", "--json"], ["--json", "--version"]] {
        let (exit, answer, _) = home.run(&order);
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((exit, answer), (0, serde_json::json!({ "name": "tollway", "version": version })));
    }
}

#[test]
fn json_error_is_an_object_on_standard_error() {
    let (exit, stdout, stderr) = Home::new().run(&["usage", "--json"]);
    assert_eq!((exit, stdout.as_str()), (78, ""));
    let error: serde_json::Value = serde_json::from_str(&stderr).unwrap();
    assert_eq!(error["error"]["exit"], 78);
    assert!(error["error"]["advice"].as_str().unwrap().contains("tollway.toml"));
}

#[test]
fn colours_only_on_terminals_or_on_request() {
    let home = Home::with_config("policies.adobe.limits = ['9 / minute']");
    let escapes = |arguments: &[&str], variable: &[(&str, &str)]| {
        let mut command = home.tollway(arguments);
        command.envs(variable.iter().copied());
        let output = command.output().unwrap();
        output.stdout.contains(&b'\x1b') || output.stderr.contains(&b'\x1b')
    };
    assert!(!escapes(&["usage"], &[]), "a pipe");
    assert!(escapes(&["usage", "--color", "always"], &[]));
    assert!(escapes(&["usage"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!escapes(&["usage", "--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!escapes(&["usage"], &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]), "NO_COLOR");
}

/// `tollway ... | head` ends quietly.
#[test]
fn closed_pipe_is_not_a_failure() {
    let home = Home::new();
    let script =
        format!("{} completions zsh | head -1; echo ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_tollway"));
    let output = Command::new("bash").args(["-c", &script]).current_dir(home.path()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stdout.ends_with("\n0\n") && stderr.is_empty(), "{stdout}{stderr}");
}
