//! The config that an import becomes.

use std::fmt::Write;
use std::path::PathBuf;

use super::rules::{Import, Rule, Target};

/// Policies first, then the rules that lead to them.
pub(super) fn write(import: &Import, files: &[PathBuf]) -> String {
    let mut text = String::from("# Made by `tollway policy import envoy`");
    for (index, file) in files.iter().enumerate() {
        let file = file.display().to_string().escape_debug().to_string();
        let _ = write!(text, "{} {file}", if index == 0 { " of" } else { "," });
    }
    text.push_str(".\n");
    import.rules.iter().for_each(|rule| write_policy(&mut text, rule));
    text.push_str("\n[server]\ngrpc = \"127.0.0.1:8081\"\n");
    import.rules.iter().for_each(|rule| write_rule(&mut text, rule));
    text
}

fn write_policy(text: &mut String, rule: &Rule) {
    let Target::Policy { name, limit, shadow, .. } = &rule.target else { return };
    let _ = write!(text, "\n[policies.{}]\nlimits = [{}]\n", quoted(name), quoted(limit));
    if *shadow {
        text.push_str("shadow = true\n");
    }
}

fn write_rule(text: &mut String, rule: &Rule) {
    let keys: Vec<String> = rule.keys.iter().map(|key| quoted(key)).collect();
    let _ = write!(
        text,
        "\n[[server.descriptors]]\ndomain = {}\nkeys = [{}]\n",
        quoted(&rule.domain),
        keys.join(", ")
    );
    match &rule.target {
        Target::Policy { name, subject, .. } => {
            let _ = writeln!(text, "policy = {}", quoted(name));
            if let Some(subject) = subject {
                let _ = writeln!(text, "subject = {}", quoted(subject));
            }
        }
        Target::Unlimited => text.push_str("unlimited = true\n"),
        Target::Blocked => text.push_str("blocked = true\n"),
    }
}

/// A string of JSON is one of TOML as well; where it is not, because of a sign that nobody sees, the config says so.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
