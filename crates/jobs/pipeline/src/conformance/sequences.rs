//! Random sequences of operations: engine and model must agree on every answer, every job and every count.

use tollway_core::{Name, Span, Timestamp};

use super::lab::{Lab, VISIBILITY, at, failure, stage};
use super::model::Model;
use super::random::Random;
use crate::*;

const STAGES: [&str; 3] = ["a", "b", "c"];

/// Whether the model describes this engine.
pub(super) fn suits(can: &Capabilities) -> bool {
    can.atomic_hand_off
        && can.exact_counts
        && can.claim_by_cost
        && can.ordered
        && can.inspectable
        && can.groups
}

/// Runs one sequence.
pub(super) fn run(lab: &Lab, seed: u64, steps: u64) {
    let mut sequence =
        Sequence { lab, model: Model::default(), random: Random::new(seed), now: at(0), claims: Vec::new() };
    for stage_name in STAGES {
        sequence.set_stage(&stage(stage_name), StageChange::default());
    }
    let after = Some(vec![stage("a"), stage("b")]);
    sequence.set_stage(&stage("c"), StageChange { after, ..StageChange::default() });
    for step in 0..steps {
        sequence.step();
        if step % 10 == 9 || step + 1 == steps {
            sequence.compare(step);
        }
    }
}

struct Sequence<'l> {
    lab: &'l Lab,
    model: Model,
    random: Random,
    now: Timestamp,
    /// Every claim there ever was, so that late answers come up.
    claims: Vec<Claimed>,
}

impl Sequence<'_> {
    fn step(&mut self) {
        self.now = self.now.plus(Span::from_secs(self.random.below(120)));
        match self.random.below(100) {
            0..20 => self.enqueue(),
            20..25 => self.peek(),
            25..50 => self.claim(),
            50..75 => self.finish(),
            75..80 => self.renew(),
            80..84 => self.release(),
            84..90 => self.change(),
            90..93 => self.edit(),
            93..96 => {
                let paused = Some(self.random.percent(20));
                let stage = self.stage();
                self.set_stage(&stage, StageChange { paused, ..StageChange::default() });
            }
            96..98 => self.purge(),
            _ if self.random.percent(20) => self.abandon(),
            _ => self.gate(),
        }
        self.model.release_groups(self.now);
    }

    fn stage(&mut self) -> Name {
        stage(self.random.pick(&STAGES))
    }

    fn cost(&mut self) -> JobCost {
        match self.random.percent(70) {
            true => JobCost::OF_STAGE,
            false => JobCost::new([("gemini", "tokens", 1 + self.random.below(2))]).unwrap(),
        }
    }

    fn enqueue(&mut self) {
        let mut jobs = Vec::new();
        for _ in 0..1 + self.random.below(5) {
            let key = self.random.below(200).to_string();
            let mut job = NewJob::new(&self.stage(), &key, "{}").unwrap().cost(self.cost());
            job = job.priority(self.random.below(3) as i16);
            if self.random.percent(60) {
                job = job.group(self.random.pick(&["g", "h", "i"])).unwrap();
            }
            if self.random.percent(20) {
                job = job.not_before(self.now.plus(Span::from_secs(self.random.below(600))));
            }
            if self.random.percent(20) {
                job = job.again();
            }
            jobs.push(job);
        }
        let answers = self.lab.enqueue(jobs.clone(), self.now);
        for (job, answer) in jobs.iter().zip(answers) {
            match answer {
                Enqueued::New(id) => assert!(self.model.enqueue(job, id, self.now), "{job:?} was there"),
                Enqueued::Duplicate(id) => assert!(!self.model.enqueue(job, id, self.now), "{job:?} is new"),
                Enqueued::Cancelled(id) => {
                    let known = self.model.jobs.iter().find(|known| known.job.id == id);
                    assert!(known.is_some_and(|known| known.job.state == State::Cancelled), "{job:?}");
                    assert!(!self.model.enqueue(job, id, self.now), "{job:?} is new");
                }
            }
        }
    }

    fn peek(&mut self) {
        let stage = self.stage();
        let answer = self.lab.wait(self.lab.engine.peek(&stage, self.now));
        assert_eq!(answer, self.model.peek(&stage, self.now));
    }

    fn claim(&mut self) {
        let count = usize::try_from(1 + self.random.below(3)).unwrap();
        let mut request = ClaimRequest::new(&self.stage(), "w", VISIBILITY).count(count);
        if self.random.percent(50) {
            request = request.cost(self.cost());
        }
        let claimed = self.lab.wait(self.lab.engine.claim(request.clone(), self.now));
        let jobs: Vec<Job> = claimed.iter().map(|claimed| claimed.job.clone()).collect();
        assert_eq!(jobs, self.model.claim(&request, self.now), "{request:?}");
        self.claims.extend(claimed);
    }

    /// A claim, mostly a newer one.
    fn some_claim(&mut self) -> Option<Claimed> {
        let recent = self.claims.len().saturating_sub(if self.random.percent(80) { 6 } else { 40 });
        let claims = &self.claims[recent..];
        if claims.is_empty() { None } else { Some(self.random.pick(claims)) }
    }

    fn finish(&mut self) {
        let Some(claimed) = self.some_claim() else { return };
        let next = if claimed.job.stage.as_str() == "a" { "b" } else { "c" };
        let conclusion = match self.random.below(10) {
            0..6 => {
                let count = if next == claimed.job.stage.as_str() { 0 } else { self.random.below(4) };
                let outputs = (0..count).map(|_| Output::new(&stage(next), "1").unwrap()).collect();
                Conclusion::Done { outputs, result: None }
            }
            6..9 => {
                let causes = [Cause::Failure, Cause::Crash, Cause::RateLimited];
                let attempt = Attempt::new(self.random.pick(&causes), "again");
                Conclusion::Again { at: self.now.plus(Span::from_secs(self.random.below(300))), attempt }
            }
            _ => Conclusion::Dead { attempt: failure(self.random.pick(&["timeout", "broken"])) },
        };
        let next = self.asked_next();
        let claim = claimed.claim.clone();
        let call = self.lab.engine.finish_and_claim(claim, conclusion.clone(), next.clone(), self.now);
        let (answer, goes_on) = self.lab.wait(call);
        assert_eq!(answer, self.model.finish(&claimed.claim, &conclusion, self.now), "{}", claimed.claim);
        if let (Finished::Committed { outputs: 1.., .. }, Conclusion::Done { outputs, .. }) =
            (answer, conclusion)
        {
            self.hand_on(&claimed, &outputs);
        }
        let job = goes_on.as_ref().map(|claimed| claimed.job.clone());
        assert_eq!(job, self.model.claim_next(&next, self.now), "{next:?}");
        self.claims.extend(goes_on);
    }

    /// What a worker asks for when it ends a job: mostly a job that takes nothing, of the latest stage.
    fn asked_next(&mut self) -> Vec<ClaimRequest> {
        let stages: &[&str] = match self.random.below(4) {
            0 => &[],
            1 => &["a"],
            2 => &["c", "b", "a"],
            _ => &["b", "unknown", "a"],
        };
        let cost = if self.random.percent(80) { JobCost::OF_STAGE } else { self.cost() };
        let request = |name: &&str| ClaimRequest::new(&stage(name), "w", VISIBILITY);
        match self.random.percent(10) {
            true => stages.iter().map(request).collect(),
            false => stages.iter().map(|name| request(name).cost(cost.clone())).collect(),
        }
    }

    /// Puts outputs into the model, under the ids that the engine gave them, in whatever order.
    fn hand_on(&mut self, claimed: &Claimed, outputs: &[Output]) {
        let mut stored = Vec::new();
        for (index, output) in outputs.iter().enumerate() {
            let key = self.model.output_key(claimed, index, &output.stage);
            let filter =
                Filter { stage: Some(output.stage.clone()), key: Some(key.clone()), ..Filter::default() };
            let [found] = &self.lab.scan(&filter)[..] else { panic!("output {key} is not there once") };
            let mut job = NewJob::new(&output.stage, &key, &output.data).unwrap();
            // As it is now: an operator may have changed it since the claim.
            let parent = self.model.jobs.iter().find(|job| job.job.id == claimed.job.id).unwrap();
            job = job.priority(parent.job.priority);
            job.group = parent.job.group.clone();
            stored.push((found.id, job));
        }
        stored.sort_by_key(|(id, _)| *id);
        for (id, job) in stored {
            assert!(self.model.enqueue(&job, id, self.now));
        }
    }

    fn renew(&mut self) {
        let Some(claimed) = self.some_claim() else { return };
        let answer = self.lab.wait(self.lab.engine.renew(vec![claimed.claim.clone()], VISIBILITY, self.now));
        assert_eq!(answer, [self.model.renew(&claimed.claim, VISIBILITY, self.now)]);
    }

    fn release(&mut self) {
        let Some(claimed) = self.some_claim() else { return };
        let answer = self.lab.wait(self.lab.engine.release(vec![claimed.claim.clone()], self.now));
        assert_eq!(answer, [self.model.release(&claimed.claim, self.now)]);
    }

    fn change(&mut self) {
        let change = match self.random.below(10) {
            0..5 => Change::Redrive,
            5..8 => Change::Reprioritise(self.random.below(4) as i16),
            _ => Change::Cancel,
        };
        let mut filter = Filter { stage: Some(self.stage()), ..Filter::default() };
        if self.random.percent(70) {
            filter.group = Some(self.random.pick(&["g", "h", "i"]).to_owned());
        }
        if self.random.percent(30) {
            filter.error = Some("time".to_owned());
        }
        if self.random.percent(30) {
            filter.state = Some(self.random.pick(&State::ALL));
        }
        let answer = self.lab.change(filter.clone(), change, self.now);
        assert_eq!(answer, self.model.change(&filter, change, self.now), "{change:?} {filter:?}");
    }

    fn edit(&mut self) {
        let Some(claimed) = self.some_claim() else { return };
        let edit = Edit::default().priority(2);
        let answer = self.lab.wait(self.lab.engine.edit(claimed.job.id, edit, self.now));
        assert_eq!(answer, self.model.edit(claimed.job.id, 2, self.now));
    }

    fn purge(&mut self) {
        let (stage, before) = (self.stage(), self.now.minus(Span::from_mins(30)));
        let answer = self.lab.wait(self.lab.engine.purge(&stage, before, 1_000));
        assert_eq!(answer, self.model.purge(&stage, before));
    }

    fn abandon(&mut self) {
        let answer = self.lab.wait(self.lab.engine.abandon(None, self.now));
        assert_eq!(answer, self.model.abandon(self.now));
    }

    fn gate(&mut self) {
        let after = match self.random.percent(70) {
            true => vec![stage("a"), stage("b")],
            false => vec![],
        };
        self.set_stage(&stage("c"), StageChange { after: Some(after), ..StageChange::default() });
    }

    fn set_stage(&mut self, stage: &Name, change: StageChange) {
        self.model.set_stage(stage, &change);
        self.lab.set_stage(stage.as_str(), change, self.now);
    }

    fn compare(&self, step: u64) {
        let jobs = self.lab.scan(&Filter::default());
        let expected: Vec<Job> = self.model.jobs.iter().map(|job| job.job.clone()).collect();
        for (found, expected) in jobs.iter().zip(&expected) {
            assert_eq!(found, expected, "after step {step}");
        }
        assert_eq!(jobs.len(), expected.len(), "after step {step}");
        let counts = self.lab.wait(self.lab.engine.counts());
        assert_eq!(counts, self.model.counts(), "after step {step}");
    }
}
