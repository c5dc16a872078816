//! `pipeline dead redrive --move-task`: SQS itself moves the messages of dead letters back.

use std::time::Duration;

use tollway_pipeline::view::{JobRate, Matched};
use tollway_pipeline::{Engine, EngineError, Filter, PipelineConfig, StageCounts, State};
use tollway_sqs::{MOVES_PER_SECOND_MAX, MoveProgress, MoveState, MoveTask, SqsEngine};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::{count, counted};
use crate::pipeline::change::{Display, Request, Stepped};
use crate::pipeline::interrupt::Interrupt;
use crate::pipeline::session::runtime;

/// How often SQS is asked how far the tasks are.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often it is asked after the tasks have ended, or were cancelled: its numbers come late.
const LATE_LOOKS_MAX: u32 = 5;

const GOES_ON: &str = "SQS goes on with its move tasks; the same command follows them";

pub(super) fn run(
    request: &Request<'_>,
    config: &PipelineConfig,
    context: &Context,
) -> Result<Exit, Failure> {
    let per_second = request.rate.map(per_second).transpose()?;
    if request.rate.is_some_and(|rate| rate.per_second() == 0) {
        context.output().note("a move task of SQS moves at least 1 message a second");
    }
    runtime()?.block_on(async {
        let engine = SqsEngine::open(&config.engine)?;
        engine.check_queues().await?;
        let filter = request.selection.jobs().check(request.state, config, &engine).await?;
        let dead = stages_with_dead(&engine, &filter).await?;
        let total: u64 = dead.iter().map(|counts| counts.of(State::Dead)).sum();
        if request.dry_run || total == 0 {
            let states = if total > 0 { vec![(State::Dead, total)] } else { Vec::new() };
            let found = Matched { matched: total, most: total, states, paused: Vec::new() };
            request.print_dry(&found, context.output())?;
            return Ok(Exit::DONE);
        }
        let mut interrupt = Interrupt::listen()?;
        let mut moves = Moves { engine: &engine, tasks: Vec::new(), context, total };
        moves.start(&dead, per_second).await?;
        let interrupted = moves.follow(&mut interrupt).await?;
        moves.print(request, interrupted)
    })
}

/// The rate of a task.
fn per_second(rate: &JobRate) -> Result<u32, Failure> {
    let most = MOVES_PER_SECOND_MAX;
    match u32::try_from(rate.per_second()) {
        Ok(rate) if rate <= most => Ok(rate.max(1)),
        _ => Err(Failure::usage(format!("a move task of SQS moves at most {most} messages a second"))
            .advise("give a lower --rate, or none: then SQS chooses it")),
    }
}

/// The stages with dead letters, as the ledger counts them.
async fn stages_with_dead(engine: &SqsEngine, filter: &Filter) -> Result<Vec<StageCounts>, EngineError> {
    let mut stages = engine.counts().await?;
    stages.retain(|counts| filter.stage.as_ref().is_none_or(|stage| *stage == counts.stage));
    stages.retain(|counts| counts.of(State::Dead) > 0);
    Ok(stages)
}

/// The move tasks of a command, one for each stage.
struct Moves<'a> {
    engine: &'a SqsEngine,
    tasks: Vec<(MoveTask, MoveProgress)>,
    context: &'a Context,
    /// How many dead letters the ledger has.
    total: u64,
}

impl Moves<'_> {
    /// Starts all tasks, or none: those that were started are cancelled if another cannot be.
    async fn start(&mut self, dead: &[StageCounts], per_second: Option<u32>) -> Result<(), Failure> {
        for StageCounts { stage, .. } in dead {
            match self.engine.start_move_task(stage, per_second).await {
                Ok(task) => {
                    if task.was_running() {
                        let note = format!("stage {stage}: following the move task that runs already");
                        self.context.output().note(note);
                    }
                    self.tasks.push((task, NOT_LISTED));
                }
                Err(error) => {
                    let failure = Failure::from(error);
                    let cancelled = self.cancel(|task| !task.was_running()).await;
                    return Err(if cancelled.is_ok() { failure } else { failure.advise(GOES_ON) });
                }
            }
        }
        Ok(())
    }

    /// Waits until all tasks have ended. The exit code, if a signal ended them.
    async fn follow(&mut self, interrupt: &mut Interrupt) -> Result<Option<Exit>, Failure> {
        let mut display = Display::new(self.context, self.total, true);
        let (mut interrupted, mut late_looks) = (None, 0);
        loop {
            self.look().await.map_err(|error| Failure::from(error).advise(GOES_ON))?;
            let to_move: Option<u64> = self.tasks.iter().map(|(_, progress)| progress.to_move).sum();
            display.set_most(to_move.unwrap_or(self.total));
            display.show(self.moved());
            if self.tasks.iter().all(|(_, progress)| has_settled(progress)) || late_looks == LATE_LOOKS_MAX {
                return Ok(interrupted);
            }
            if interrupted.is_some() || self.tasks.iter().all(|(_, progress)| has_ended(progress)) {
                late_looks += 1;
            }
            match (interrupt.sleep(LOOK_EVERY).await, interrupted) {
                (None, _) => {}
                (Some(_), Some(_)) => return Ok(interrupted),
                (exit, None) => {
                    self.cancel(|_| true).await?;
                    interrupted = exit;
                }
            }
        }
    }

    async fn look(&mut self) -> Result<(), EngineError> {
        for (task, progress) in self.tasks.iter_mut().filter(|(_, progress)| !has_settled(progress)) {
            *progress = self.engine.look_at_move_task(task).await?;
        }
        Ok(())
    }

    /// Cancels tasks that run. The first error counts after all were tried.
    async fn cancel(&mut self, which: fn(&MoveTask) -> bool) -> Result<(), Failure> {
        let mut answer = Ok(());
        let running = self.tasks.iter_mut().filter(|(task, progress)| which(task) && !has_ended(progress));
        for (task, progress) in running {
            match self.engine.cancel_move_task(task).await {
                Ok(moved) => progress.moved = progress.moved.max(moved),
                Err(error) => answer = answer.and(Err(Failure::from(error).advise(GOES_ON))),
            }
        }
        answer
    }

    fn moved(&self) -> u64 {
        self.tasks.iter().map(|(_, progress)| progress.moved).sum()
    }

    fn print(&self, request: &Request<'_>, interrupted: Option<Exit>) -> Result<Exit, Failure> {
        let (changed, output) = (self.moved(), self.context.output());
        let failures: Vec<String> =
            self.tasks.iter().filter_map(|(task, progress)| failure(task, progress)).collect();
        if interrupted.is_none() && !failures.is_empty() {
            let moved = format!("moved back {} of {}", counted(changed, "dead letters"), count(self.total));
            return Err(Failure::new(Exit::STORE, format!("{}; {moved}", failures.join("; ")))
                .advise("run the same command again, or leave --move-task out"));
        }
        let exit = request.print(&Stepped { changed, interrupted }, self.total, output)?;
        output.note("each counts as a dead letter until a worker claims it");
        if changed < self.total {
            let missing = counted(self.total - changed, "dead letters");
            output.note(format!(
                "SQS found no message of {missing}: moved earlier and not claimed yet, or older than the queue's retention. \
                 Without --move-task, the same command sends new ones"
            ));
        }
        Ok(exit)
    }
}

/// The progress of a task that SQS does not list yet.
const NOT_LISTED: MoveProgress = MoveProgress { moved: 0, to_move: None, state: MoveState::Running };

fn has_ended(progress: &MoveProgress) -> bool {
    !matches!(progress.state, MoveState::Running | MoveState::Cancelling)
}

/// Whether its numbers are the last ones.
fn has_settled(progress: &MoveProgress) -> bool {
    let all = progress.to_move.is_none_or(|to_move| progress.moved >= to_move);
    has_ended(progress) && (all || progress.state != MoveState::Completed)
}

/// Why a task did not move all of its messages.
fn failure(task: &MoveTask, progress: &MoveProgress) -> Option<String> {
    let stage = task.stage();
    match &progress.state {
        MoveState::Failed(reason) => Some(format!("stage {stage}: the move task failed: {reason}")),
        MoveState::Cancelled => Some(format!("stage {stage}: the move task was cancelled elsewhere")),
        MoveState::Running | MoveState::Cancelling | MoveState::Completed => None,
    }
}
