//! The engine that jobs leave, and the one that they enter.

use std::sync::Arc;

use tollway_pipeline::{
    Engine, EngineFault, EngineUrl, Filter, MOVING_MARK, PipelineConfig, SocketServer, StageChange, State,
    bounds, moving_to,
};

use super::stages::{PausedStages, prepare};
use crate::context::Context;
use crate::failure::Failure;
use crate::pipeline::engine_opener;

/// The longest name of an engine in the mark of a job.
const NAME_BYTES_MAX: usize = 900;

/// Both engines, with the stages of the old one paused.
pub(super) struct Engines {
    pub(super) source: Arc<dyn Engine>,
    pub(super) target: Arc<dyn Engine>,
    /// The new engine, as jobs are marked with it. Without a password.
    pub(super) target_name: String,
    paused: PausedStages,
    /// Answers other commands meanwhile.
    _commands: Option<SocketServer>,
}

impl Engines {
    pub(super) async fn open(
        config: &PipelineConfig,
        to: EngineUrl,
        context: &Context,
    ) -> Result<Self, Failure> {
        let (source, commands, sole_owner) = open_source(&config.engine).await?;
        let target = engine_opener().open_for_command(&to, true).await?;
        let target_name = name(&to);
        // Before anything is changed: whether both can do it.
        source.confirm_moved(Vec::new(), &target_name).await?;
        target.import(Vec::new(), context.now()).await?;
        refuse_same_engine(config, &*source, &*target, context).await?;
        refuse_other_move(&*source, |to| to != target_name).await?;
        refuse_other_move(&*target, |_| true).await?;
        if sole_owner {
            // No process works on these jobs: those that ran when one died can move at once.
            source.abandon(None, context.now()).await?;
        }
        let paused = prepare(config, &*source, &*target, context).await?;
        Ok(Self { source, target, target_name, paused, _commands: commands })
    }

    /// Lets the new engine go on, if it was paused for the move.
    pub(super) async fn resume_target(&self, context: &Context) -> Result<(), Failure> {
        self.paused.resume(&*self.target, context).await
    }
}

/// As the owner of a file that no process runs, or through the process that does.
async fn open_source(url: &EngineUrl) -> Result<(Arc<dyn Engine>, Option<SocketServer>, bool), Failure> {
    if let EngineUrl::Sqlite(file) = url
        && file.exists()
    {
        match engine_opener().open_to_run(url).await {
            Ok(opened) => return Ok((opened.engine, opened.commands, opened.sole_owner)),
            Err(error) if error.fault == EngineFault::Busy => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((engine_opener().open_for_command(url, false).await?, None, false))
}

/// A relative path starts here, and not at the config's folder.
pub(super) fn absolute(url: &EngineUrl) -> Result<EngineUrl, Failure> {
    match url {
        EngineUrl::Sqlite(path) => {
            let absolute = std::path::absolute(path);
            let wrong = |error| Failure::usage(format!("{} is no path: {error}", path.display()));
            absolute.map(EngineUrl::Sqlite).map_err(wrong)
        }
        EngineUrl::Postgres(_) | EngineUrl::Sqs(_) => Ok(url.clone()),
    }
}

pub(super) fn refuse_same(source: &EngineUrl, target: &EngineUrl) -> Result<(), Failure> {
    let same = match (source, target) {
        (EngineUrl::Sqlite(source), EngineUrl::Sqlite(target)) => {
            match (source.canonicalize(), target.canonicalize()) {
                (Ok(source), Ok(target)) => source == target,
                _ => source == target,
            }
        }
        (source, target) => source == target,
    };
    match same {
        true => Err(same_engine()),
        false => Ok(()),
    }
}

fn name(url: &EngineUrl) -> String {
    let name = url.to_string();
    name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_owned()
}

/// Refuses jobs of an interrupted move to an engine that is refused: they may be there already.
async fn refuse_other_move(engine: &dyn Engine, refused: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let mut after = None;
    loop {
        let page = engine.scan(moving_filter(), after, bounds::PAGE_MAX).await?;
        let targets = page.items.iter().filter_map(|job| moving_to(&job.error)).map(|(to, _)| to);
        if let Some(to) = targets.into_iter().find(|to| refused(to)) {
            let message = format!("a move to {to} was interrupted, and jobs of it may be there already");
            return Err(Failure::usage(message).advise(format!("complete it first: --to {to}")));
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Refuses two names of one engine, in which every job would seem to be there already. A setting of the first stage is
/// changed for a moment in one, and looked for in the other.
async fn refuse_same_engine(
    config: &PipelineConfig,
    source: &dyn Engine,
    target: &dyn Engine,
    context: &Context,
) -> Result<(), Failure> {
    let Some(stage) = config.stages.first().map(|stage| &stage.name) else { return Ok(()) };
    let concurrency = async |engine: &dyn Engine| -> Result<Option<u32>, Failure> {
        let settings = engine.stages().await?.into_iter().find(|known| known.stage == *stage);
        Ok(settings.and_then(|known| known.concurrency))
    };
    let (before, there) = (concurrency(source).await?, concurrency(target).await?);
    let probe = if there == Some(1) { 2 } else { 1 };
    let set = |concurrency| StageChange { concurrency: Some(concurrency), ..StageChange::default() };
    source.set_stage(stage, set(Some(probe)), context.now()).await?;
    let seen = concurrency(target).await;
    source.set_stage(stage, set(before), context.now()).await?;
    match seen? == Some(probe) {
        true => Err(same_engine()),
        false => Ok(()),
    }
}

fn same_engine() -> Failure {
    Failure::usage("--to is the engine that the jobs are in")
        .advise("leave `engine` in the config as it is until they have moved")
}

/// Jobs that were withdrawn, and may not have arrived.
pub(super) fn moving_filter() -> Filter {
    Filter { state: Some(State::Cancelled), error: Some(MOVING_MARK.to_owned()), ..Filter::default() }
}
