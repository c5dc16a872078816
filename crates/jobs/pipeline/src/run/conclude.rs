//! From a handler's answer to the end of a claim: what is counted, tried again or given up.

use std::collections::BTreeMap;

use tollway_core::controller::HOLD_DAILY_MAX;
use tollway_core::{Name, Span, Timestamp};

use crate::engine::checks::check;
use crate::handler::Answer;
use crate::{Attempt, Cause, Conclusion, Job, StageConfig};

/// How long a policy is held if the vendor did not say.
const HOLD_DEFAULT: Span = Span::from_secs(30);

/// The longest pause that a handler can ask for, unless the stage's own is longer: as long as the vendor's daily holds.
const AFTER_MAX: Span = HOLD_DAILY_MAX;

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
            let done = outputs.map(|outputs| Conclusion::Done { outputs, result });
            match done.map(|done| (check(&done), done)) {
                Ok((Ok(_), done)) => Concluded { cost, ..Concluded::new(done) },
                // Another try would bring as much.
                Ok((Err(error), _)) => {
                    let error = format!("the answer cannot be stored: {}", error.message);
                    let attempt = Attempt::new(Cause::Failure, &error);
                    Concluded { cost, ..Concluded::new(Conclusion::Dead { attempt }) }
                }
                Err(error) => {
                    let attempt = Attempt::new(Cause::Failure, &format!("the handler {error}"));
                    Concluded { cost, ..Concluded::new(failed(stage, job, attempt, None, now)) }
                }
            }
        }
        Answer::Retry { error, detail, after } => {
            let (after, detail) = bounded(stage, after, &detail);
            let attempt = Attempt::new(Cause::Failure, &error).detail(&detail);
            Concluded::new(failed(stage, job, attempt, after, now))
        }
        Answer::Dead { error, detail } => {
            let attempt = Attempt::new(Cause::Failure, &error).detail(&detail);
            Concluded::new(Conclusion::Dead { attempt })
        }
        Answer::RateLimited { after, error } => {
            let (after, detail) = bounded(stage, after, "");
            let hold = after.unwrap_or(HOLD_DEFAULT);
            let attempt = Attempt::new(Cause::RateLimited, &error).detail(&detail);
            Concluded {
                hold: Some(hold),
                ..Concluded::new(Conclusion::Again { at: now.plus(hold), attempt })
            }
        }
        // No attempt, which the caller sees before it concludes one.
        Answer::Unreachable { error, detail } => {
            let attempt = Attempt::new(Cause::Crash, &error).detail(&detail);
            Concluded::new(crashed(stage, job, attempt, now))
        }
        Answer::Crash { error, detail, pause } => {
            let pause = pause.then(|| error.clone());
            let attempt = Attempt::new(Cause::Crash, &error).detail(&detail);
            Concluded { pause, ..Concluded::new(crashed(stage, job, attempt, now)) }
        }
    }
}

/// A pause that a handler asks for, and the detail of its attempt, which has what was asked for if that is too long.
fn bounded(stage: &StageConfig, after: Option<Span>, detail: &str) -> (Option<Span>, String) {
    let most = AFTER_MAX.max(stage.backoff_max);
    match after.filter(|after| *after > most) {
        None => (after, detail.to_owned()),
        Some(asked) => {
            let told = format!("asked for a pause of {asked}; waits {most}, the longest\n{detail}");
            (Some(most), told.trim_end().to_owned())
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

    /// 228 years were accepted once, and the pipeline never ended.
    #[test]
    fn pause_that_a_handler_asks_for_is_bounded_and_kept_as_evidence() {
        let asked = Some(Span::from_days(83_220));
        let retry = Answer::Retry { error: "e".into(), detail: "said so".into(), after: asked };
        for answer in [retry.clone(), Answer::rate_limited(asked)] {
            let found = concluded(&job(0, 0), answer);
            let Conclusion::Again { at, attempt } = found.conclusion else { panic!() };
            assert_eq!(at.since(NOW), Span::from_hours(25));
            assert!(attempt.details().starts_with("asked for a pause of 83220d"), "{}", attempt.details());
            assert!(found.hold.is_none_or(|hold| hold == Span::from_hours(25)));
        }
        let patient = StageConfig { backoff_max: Span::from_days(3), ..stage() };
        let found = conclude(&patient, &[], &job(0, 0), retry, NOW).conclusion;
        let Conclusion::Again { at, attempt } = found else { panic!() };
        assert_eq!(at.since(NOW), Span::from_days(3));
        assert!(attempt.details().ends_with("\nsaid so"), "{}", attempt.details());
    }

    #[test]
    fn too_many_outputs_are_dead_at_once_with_the_reason() {
        let found = concluded(&job(0, 0), Answer::hands_on(vec!["1"; crate::bounds::OUTPUTS_MAX + 1]));
        let Conclusion::Dead { attempt } = found.conclusion else { panic!() };
        assert!(attempt.error().contains("10001 outputs in one call, more than the 10000"), "{attempt:?}");
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
