//! Keys with one problem: how many, the first of their names, and the commands that fix all of them.

use super::keys::Counters;
use super::redis_cli::RedisCli;
use crate::doctor::finding::NAMED_MAX;
use crate::shell::shell_word;

/// Keys with one problem.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) number: u64,
    /// The first of them.
    named: Vec<String>,
    /// The servers that have some, and of which kind.
    places: Vec<(RedisCli, Counters)>,
    /// Whether a name has a line break, which no pipeline survives.
    line_breaks: bool,
}

impl Listed {
    pub(super) fn add(&mut self, key: String, server: &RedisCli, counters: &Counters) {
        // SCAN may return a key twice.
        if self.named.contains(&key) {
            return;
        }
        self.number = self.number.saturating_add(1);
        self.line_breaks |= key.contains('\n');
        if !self.places.iter().any(|(known, kind)| known == server && kind == counters) {
            self.places.push((server.clone(), counters.clone()));
        }
        if self.named.len() < NAMED_MAX {
            self.named.push(key);
        }
    }

    /// `5,000 counters in Redis have no TTL: a, b, ...`, if there are any.
    pub(super) fn what(&self, one: &str, many: &str) -> Option<String> {
        let number = match self.number {
            0 => return None,
            1 => format!("1 counter in Redis {one}"),
            number => format!("{} in Redis {many}", crate::humanize::counted(number, "counters")),
        };
        let named: Vec<String> = self.named.iter().map(|key| key.escape_debug().to_string()).collect();
        let more = if self.all_are_named() { "" } else { ", ..." };
        Some(format!("{number}: {}{more}", named.join(", ")))
    }

    /// Commands that delete all of them. `script` deletes those of its ARGV that have the problem.
    pub(super) fn deletion(&self, script: &str) -> String {
        let Some((server, _)) = self.places.first() else { return String::new() };
        let hint = server.hint();
        let words: Option<Vec<String>> = self.named.iter().map(|key| shell_word(key)).collect();
        let together = self.all_are_named() && self.places.iter().all(|(other, _)| other == server);
        if let Some(words) = words.filter(|_| together) {
            return format!("delete them, which starts a new window{hint}: {server} DEL {}", words.join(" "));
        }
        let breaks =
            if self.line_breaks { "; names with line breaks need a program, not a shell" } else { "" };
        let pipelines = self.places.iter().map(|(server, counters)| counters.pipeline(server, script));
        match pipelines.collect::<Option<Vec<_>>>() {
            Some(all) => format!(
                "delete all of them, which starts new windows, and print how many{breaks}{hint}: {}",
                all.join("; ")
            ),
            None => {
                "delete them, which starts new windows; their names need a program, not a shell".to_owned()
            }
        }
    }

    fn all_are_named(&self) -> bool {
        u64::try_from(self.named.len()).is_ok_and(|named| named == self.number)
    }
}
