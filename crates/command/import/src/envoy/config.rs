//! Writes the config of an import.

use std::fmt::Write;

use super::rules::{Rule, Rules, Target};
use crate::source::quoted;

/// Policies first, then the rules that lead to them.
pub(super) fn write(rules: &Rules, files: &[&str]) -> String {
    let mut text = String::from("# Made by `tollway policy import envoy`");
    for (index, file) in files.iter().enumerate() {
        let _ = write!(text, "{} {}", if index == 0 { " of" } else { "," }, file.escape_debug());
    }
    text.push_str(".\n");
    rules.rules.iter().for_each(|rule| write_policy(&mut text, rule));
    text.push_str("\n[server]\ngrpc = \"127.0.0.1:8081\"\n");
    rules.rules.iter().for_each(|rule| write_rule(&mut text, rule));
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
