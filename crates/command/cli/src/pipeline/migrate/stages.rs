//! Pauses and prepares the stages of both engines.

use tollway::core::Name;
use tollway_pipeline::{Engine, PipelineConfig, StageChange};

use crate::context::Context;
use crate::failure::Failure;

/// Stages of the new engine that were paused for the move.
pub(super) struct PausedStages {
    by_us: Vec<Name>,
    /// They were paused before.
    before: Vec<Name>,
}

/// Pauses the old engine, and tells the new one about its stages.
///
/// A stage that waits for groups counts the jobs of its own engine. While a group is in both, each would count too few: so
/// the old engine claims nothing from here on, and the new one nothing until all have moved.
pub(super) async fn prepare(
    config: &PipelineConfig,
    source: &dyn Engine,
    target: &dyn Engine,
    context: &Context,
) -> Result<PausedStages, Failure> {
    let known = target.stages().await?;
    let settings = source.stages().await?;
    let names = config.stages.iter().map(|stage| &stage.name);
    let others =
        settings.iter().map(|known| &known.stage).filter(|name| config.stage(name.as_str()).is_none());
    for name in names.chain(others) {
        source
            .set_stage(name, StageChange { paused: Some(true), ..StageChange::default() }, context.now())
            .await?;
    }
    let waits_for_groups = config.stages.iter().any(|stage| !stage.after.is_empty());
    let mut paused = PausedStages { by_us: Vec::new(), before: Vec::new() };
    for stage in &config.stages {
        let was_paused = known.iter().any(|known| known.stage == stage.name && known.paused);
        let set = settings.iter().find(|known| known.stage == stage.name).and_then(|known| known.concurrency);
        let change = StageChange {
            paused: waits_for_groups.then_some(true),
            concurrency: set.map(Some),
            after: Some(stage.after.clone()),
        };
        target.set_stage(&stage.name, change, context.now()).await?;
        match (was_paused, waits_for_groups) {
            (true, _) => paused.before.push(stage.name.clone()),
            (false, true) => paused.by_us.push(stage.name.clone()),
            (false, false) => {}
        }
    }
    Ok(paused)
}

impl PausedStages {
    /// Resumes those that were not paused before.
    pub(super) async fn resume(&self, target: &dyn Engine, context: &Context) -> Result<(), Failure> {
        for stage in &self.by_us {
            let change = StageChange { paused: Some(false), ..StageChange::default() };
            target.set_stage(stage, change, context.now()).await?;
        }
        if !self.before.is_empty() {
            let names: Vec<&str> = self.before.iter().map(Name::as_str).collect();
            let names = names.join(", ");
            let who = "by you or by an earlier run of this command";
            let advice = "`tollway pipeline resume` there starts them";
            context.output().note(format_args!("paused in the new engine, {who}: {names}; {advice}"));
        }
        Ok(())
    }
}
