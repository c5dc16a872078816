//! The alarms of the process: what is raised now, and what was.

use std::collections::VecDeque;

use crate::snapshot::Alarm;

/// How many alarms are kept: those of the last days, as a rule.
const ALARMS_MAX: usize = 20;

/// The last alarms, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct AlarmBook {
    kept: VecDeque<Alarm>,
    next: u64,
}

impl AlarmBook {
    /// Notes what is raised now, each with its kind and text. What is raised no longer is cleared.
    pub(crate) fn note(&mut self, raised: &[(String, String)], now: u64) {
        for alarm in self.kept.iter_mut().filter(|alarm| alarm.cleared.is_none()) {
            match raised.iter().find(|(kind, _)| *kind == alarm.kind) {
                Some((_, text)) => alarm.text.clone_from(text),
                None => alarm.cleared = Some(now),
            }
        }
        for (kind, text) in raised {
            if self.kept.iter().any(|alarm| alarm.kind == *kind && alarm.cleared.is_none()) {
                continue;
            }
            if self.kept.len() >= ALARMS_MAX {
                self.kept.pop_front();
            }
            self.next += 1;
            let (kind, text) = (kind.clone(), text.clone());
            self.kept.push_back(Alarm {
                id: format!("a{}", self.next),
                kind,
                text,
                since: now,
                cleared: None,
            });
        }
    }

    /// All of them, the newest first.
    pub(crate) fn newest_first(&self) -> Vec<Alarm> {
        self.kept.iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_kept_after_it_has_cleared() {
        let mut book = AlarmBook::default();
        let raised = [("fallback".to_owned(), "the store is away".to_owned())];
        book.note(&raised, 1);
        book.note(&raised, 2);
        book.note(&[], 3);
        book.note(&raised, 4);
        let alarms = book.newest_first();
        let times: Vec<_> =
            alarms.iter().map(|alarm| (alarm.id.as_str(), alarm.since, alarm.cleared)).collect();
        assert_eq!(times, [("a2", 4, None), ("a1", 1, Some(3))]);
    }
}
