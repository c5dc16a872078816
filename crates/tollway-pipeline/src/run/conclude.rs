//! From a handler's answer to the end of a claim: what is counted, tried again or given up.

use std::collections::BTreeMap;

use tollway_core::{Name, Span, Timestamp};

use crate::handler::Answer;
use crate::{Attempt, Cause, Conclusion, Job, StageConfig};

/// How long a policy is held if the vendor did not say.
const HOLD_DEFAULT: Span = Span::from_secs(30);

/// The end of a claim, and what else follows from the answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Concluded {
    pub(super) conclusion: Conclusion,
    /// Hold the policies of the job's cost for this long.
    pub(super) hold: Option<Span>,
    /// What the call took in fact.
    pub(super) cost: BTreeMap<String, u64>,
    /// Why the stage must be paused.
    pub(super) pause: Option<String>,
}

impl Concluded {
    fn new(conclusion: Conclusion) -> Self {
        Self { conclusion, hold: None, cost: BTreeMap::new(), pause: None }
    }
}

/// Concludes an attempt. `later` are the stages that outputs may name.
pub(super) fn conclude(
    stage: &StageConfig,
    later: &[Name],
    job: &Job,
    answer: Answer,
    now: Timestamp,
) -> Concluded {
    match answer {
        Answer::Done { outputs, result, cost } => {
            let outputs: Result<Vec<_>, String> =
                outputs.into_iter().map(|handed| handed.into_output(stage.next.as_ref(), later)).collect();
            match outputs {
                Ok(outputs) => Concluded { cost, ..Concluded::new(Conclusion::Done { outputs, result }) },
                Err(error) => {
                    let attempt = Attempt::new(Cause::Failure, &format!("the handler {error}"));
                    Concluded { cost, ..Concluded::new(failed(stage, job, attempt, None, now)) }
                }
            }
        }
        Answer::Retry { error, detail, after } => {
            let attempt = Attempt::new(Cause::Failure, &error).detail(&detail);
            Concluded::new(failed(stage, job, attempt, after, now))
        }
        Answer::Dead { error, detail } => {
            let attempt = Attempt::new(Cause::Failure, &error).detail(&detail);
            Concluded::new(Conclusion::Dead { attempt })
        }
        Answer::RateLimited { after, error } => {
            let hold = after.unwrap_or(HOLD_DEFAULT);
            let attempt = Attempt::new(Cause::RateLimited, &error);
            Concluded {
                hold: Some(hold),
                ..Concluded::new(Conclusion::Again { at: now.plus(hold), attempt })
            }
        }
        Answer::Crash { error, detail, pause } => {
            let pause = pause.then(|| error.clone());
            let attempt = Attempt::new(Cause::Crash, &error).detail(&detail);
            Concluded { pause, ..Concluded::new(crashed(stage, job, attempt, now)) }
        }
    }
}

/// A dead letter, if the tries are used up.
fn failed(
    stage: &StageConfig,
    job: &Job,
    attempt: Attempt,
    after: Option<Span>,
    now: Timestamp,
) -> Conclusion {
    let failures = job.failures.saturating_add(1);
    match failures >= stage.tries {
        true => Conclusion::Dead { attempt },
        false => {
            Conclusion::Again { at: now.plus(after.unwrap_or_else(|| backoff(stage, failures))), attempt }
        }
    }
}

fn crashed(stage: &StageConfig, job: &Job, attempt: Attempt, now: Timestamp) -> Conclusion {
    let crashes = job.crashes.saturating_add(1);
    match crashes >= stage.crashes {
        true => Conclusion::Dead { attempt },
        false => Conclusion::Again { at: now.plus(backoff(stage, crashes)), attempt },
    }
}

/// The pause after this many attempts: each twice as long as the one before.
fn backoff(stage: &StageConfig, attempts: u32) -> Span {
    let doubled = 1_u64.checked_shl(attempts.saturating_sub(1)).unwrap_or(u64::MAX);
    stage.backoff.times(doubled).min(stage.backoff_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobCost, JobId, State};

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    fn stage() -> StageConfig {
        StageConfig {
            next: Some(Name::new("extract").unwrap()),
            ..StageConfig::new(Name::new("autotag").unwrap())
        }
    }

    fn job(failures: u32, crashes: u32) -> Job {
        Job {
            id: JobId::new(1),
            stage: stage().name,
            key: "k".to_owned(),
            group: None,
            data: "{}".to_owned(),
            priority: 0,
            cost: JobCost::OF_STAGE,
            state: State::Running,
            due_at: NOW,
            claim_number: 1,
            worker: String::new(),
            failures,
            crashes,
            rate_limited: 0,
            error: String::new(),
            created_at: NOW,
            changed_at: NOW,
        }
    }

    fn concluded(job: &Job, answer: Answer) -> Concluded {
        conclude(&stage(), &[Name::new("extract").unwrap()], job, answer, NOW)
    }

    /// P2: three tries, and pauses that double.
    #[test]
    fn third_failure_is_a_dead_letter() {
        let pause = |failures| match concluded(&job(failures, 0), Answer::retry("e")).conclusion {
            Conclusion::Again { at, .. } => Some(at.since(NOW)),
            _ => None,
        };
        assert_eq!([0, 1, 2].map(pause), [Some(Span::from_secs(5)), Some(Span::from_secs(10)), None]);
    }

    #[test]
    fn crashes_use_no_tries_and_have_a_bound_of_their_own() {
        let crash = || Answer::Crash { error: "signal 9".into(), detail: String::new(), pause: false };
        assert!(matches!(concluded(&job(2, 1), crash()).conclusion, Conclusion::Again { .. }));
        assert!(matches!(concluded(&job(0, 2), crash()).conclusion, Conclusion::Dead { .. }));
    }

    /// P3: a refusal of the vendor uses no try, however often it comes.
    #[test]
    fn rate_limited_attempt_is_always_tried_again() {
        let found = concluded(&job(2, 2), Answer::rate_limited(Some(Span::from_secs(7))));
        assert_eq!(found.hold, Some(Span::from_secs(7)));
        assert!(
            matches!(found.conclusion, Conclusion::Again { at, .. } if at == NOW.plus(Span::from_secs(7)))
        );
    }

    #[test]
    fn outputs_go_to_the_next_stage_and_to_no_unknown_one() {
        let found = concluded(&job(0, 0), Answer::hands_on(["1", "2"]));
        assert!(matches!(found.conclusion, Conclusion::Done { outputs, .. } if outputs.len() == 2));
        let mut handed = crate::handler::Handed::new("1");
        handed.stage = Some("autotag".to_owned());
        let answer = Answer::Done { outputs: vec![handed], result: None, cost: BTreeMap::new() };
        assert!(matches!(concluded(&job(0, 0), answer).conclusion, Conclusion::Again { .. }));
    }
}
