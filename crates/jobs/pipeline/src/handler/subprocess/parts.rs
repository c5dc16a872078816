//! Outputs that a handler says in parts before its answer, because a line is at most 1 MiB.

use crate::bounds::{BATCH_BYTES_MAX, OUTPUTS_MAX};
use crate::handler::{Answer, Handed};

/// The parts of one job so far. At most as much as one job may hand on.
#[derive(Default)]
pub(super) struct Parts {
    outputs: Vec<Handed>,
    bytes: usize,
    /// What was wrong with a part: the job cannot be done with the others alone.
    wrong: Option<String>,
}

impl Parts {
    pub(super) fn add(&mut self, part: Result<Vec<Handed>, String>) {
        match part {
            _ if self.wrong.is_some() => {}
            Err(why) => self.wrong = Some(format!("a part of its answer cannot be read: {why}")),
            Ok(outputs) => {
                self.bytes += outputs.iter().map(|output| output.data.len()).sum::<usize>();
                self.outputs.extend(outputs);
                if self.outputs.len() > OUTPUTS_MAX || self.bytes > BATCH_BYTES_MAX {
                    self.outputs = Vec::new();
                    let most = BATCH_BYTES_MAX >> 20;
                    let why = format!(
                        "it handed on more than {OUTPUTS_MAX} jobs or {most} MiB, the most of one job"
                    );
                    self.wrong = Some(why);
                }
            }
        }
    }

    /// The answer with its parts before its own outputs. Only a job that is done hands on.
    pub(super) fn complete(&mut self, answer: Answer) -> Answer {
        let parts = std::mem::take(self);
        match (answer, parts.wrong) {
            (Answer::Done { .. }, Some(why)) => Answer::dead(why),
            (Answer::Done { outputs, result, cost }, None) => {
                let outputs = parts.outputs.into_iter().chain(outputs).collect();
                Answer::Done { outputs, result, cost }
            }
            (other, _) => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(count: usize) -> Result<Vec<Handed>, String> {
        Ok((0..count).map(|_| Handed::new("1")).collect())
    }

    #[test]
    fn parts_come_before_the_outputs_of_the_answer() {
        let mut parts = Parts::default();
        parts.add(part(2));
        let Answer::Done { outputs, .. } = parts.complete(Answer::hands_on(["2"])) else { panic!() };
        assert_eq!(outputs.iter().map(|output| &*output.data).collect::<Vec<_>>(), ["1", "1", "2"]);
        assert_eq!(parts.complete(Answer::done()), Answer::done(), "an answer takes its parts with it");
    }

    #[test]
    fn too_many_parts_and_unreadable_ones_are_dead() {
        let mut parts = Parts::default();
        (0..3).for_each(|_| parts.add(part(OUTPUTS_MAX / 2)));
        let Answer::Dead { error, .. } = parts.complete(Answer::done()) else { panic!() };
        assert!(error.contains("more than 10000 jobs"), "{error}");
        parts.add(Err("no data".to_owned()));
        parts.add(part(1));
        let Answer::Dead { error, .. } = parts.complete(Answer::done()) else { panic!() };
        assert_eq!(error, "a part of its answer cannot be read: no data");
    }
}
