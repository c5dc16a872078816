//! A pipeline in a snapshot.

use tollway_pipeline::PipelineConfig;
use tollway_pipeline::run::progress::{Progress, StageProgress, Stands};

use crate::snapshot::{PipelineRow, StageRow};

/// How far it is.
pub(super) fn of(config: &PipelineConfig, progress: &Progress) -> PipelineRow {
    let has_jobs = progress.left > 0.0;
    PipelineRow {
        name: config.name.to_string(),
        stages: progress.stages.iter().map(stage).collect(),
        ends_at: progress.eta.filter(|_| has_jobs).map(|eta| eta.latest.as_millis()),
        why_no_end: progress.stands.as_ref().map(why),
        dead: progress.stages.iter().map(|stage| stage.dead).sum(),
        engine_away_since: None,
    }
}

fn stage(stage: &StageProgress) -> StageRow {
    StageRow {
        name: stage.stage.to_string(),
        ready: stage.ready,
        running: stage.running,
        delayed: stage.retrying,
        held: stage.held,
        dead: stage.dead,
        done: stage.done,
        rate_per_minute: stage.per_minute.map(|rate| (rate * 10.0).round() / 10.0),
        paused: stage.paused.then(|| "by an operator, or because too many jobs failed".to_owned()),
        ends_at: None,
    }
}

fn why(stands: &Stands) -> String {
    match stands {
        Stands::Paused(stages) => {
            let names: Vec<String> = stages.iter().map(|stage| format!("`{stage}`")).collect();
            let verb = if names.len() == 1 { "stage is paused" } else { "stages are paused" };
            format!("{verb}: {}", names.join(", "))
        }
        Stands::Held(_) => "all jobs that are left wait for their groups".to_owned(),
    }
}
