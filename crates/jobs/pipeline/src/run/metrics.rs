//! The metrics of a pipeline. The docs and tests use this list.

use tollway::metrics::MetricKind::{self, Counter, Gauge};
use tollway::metrics::{Figure, Metric, Sample};

use super::progress::{Progress, StageProgress};
use super::{EngineOutage, OwnEvents};

const fn by_stage(name: &'static str, kind: MetricKind, unit: &'static str, meaning: &'static str) -> Metric {
    Metric { name, kind, unit, labels: &["pipeline", "stage"], meaning, cloudwatch: None }
}

static QUEUE_DEPTH: Metric = by_stage(
    "tollway_pipeline_queue_depth",
    Gauge,
    "jobs",
    "jobs that wait in the stage: ready, before another try, or for their group",
)
.in_cloudwatch("{Stage}QueueDepth");
static RUNNING: Metric =
    by_stage("tollway_pipeline_running", Gauge, "jobs", "jobs that workers have claimed")
        .in_cloudwatch("{Stage}Running");
static DEAD_LETTERS: Metric =
    by_stage("tollway_pipeline_dead_letters", Gauge, "jobs", "jobs that wait for an operator")
        .in_cloudwatch("{Stage}DeadLetters");
static PAUSED: Metric =
    by_stage("tollway_pipeline_paused", Gauge, "", "1 while no job of the stage is claimed, else 0");
static CALLS: Metric = by_stage(
    "tollway_pipeline_calls_total",
    Counter,
    "attempts",
    "attempts that were started; of all processes, since the jobs were first stored",
)
.in_cloudwatch("{Stage}Calls");
static SUCCESS: Metric =
    by_stage("tollway_pipeline_success_total", Counter, "jobs", "jobs done").in_cloudwatch("{Stage}Success");
static FAILURE: Metric =
    by_stage("tollway_pipeline_failure_total", Counter, "attempts", "attempts that failed; each uses a try")
        .in_cloudwatch("{Stage}Failure");
static CRASHES: Metric = by_stage(
    "tollway_pipeline_crashes_total",
    Counter,
    "attempts",
    "attempts whose handler or process died, or whose claim expired",
)
.in_cloudwatch("{Stage}Crashes");
static RATE_LIMITED: Metric = by_stage(
    "tollway_pipeline_rate_limited_total",
    Counter,
    "attempts",
    "attempts that the vendor refused for its rate; they use no try",
)
.in_cloudwatch("{Stage}RateLimited");
static LATE: Metric = by_stage(
    "tollway_pipeline_late_answers_total",
    Counter,
    "answers",
    "answers that came after another worker had the job; they change nothing",
);

const fn of_engine(name: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    Metric { name, kind: Gauge, unit, labels: &["pipeline"], meaning, cloudwatch: None }
}

static ENGINE_UP: Metric =
    of_engine("tollway_pipeline_engine_up", "", "1 while the engine answers this process, else 0");
static ANSWERS_KEPT: Metric = of_engine(
    "tollway_pipeline_answers_kept",
    "answers",
    "finished answers that this process keeps until the engine stores them",
);

/// All of them, in export order.
pub static PIPELINE_METRICS: [&Metric; 12] = [
    &ENGINE_UP,
    &ANSWERS_KEPT,
    &QUEUE_DEPTH,
    &RUNNING,
    &DEAD_LETTERS,
    &PAUSED,
    &CALLS,
    &SUCCESS,
    &FAILURE,
    &CRASHES,
    &RATE_LIMITED,
    &LATE,
];

/// What a pipeline shows at one moment.
pub fn samples(pipeline: &str, progress: &Progress) -> Vec<Sample> {
    let sample = |metric: &'static Metric, figure: fn(&StageProgress) -> u64| {
        progress.stages.iter().map(move |stage| Sample {
            metric,
            labels: vec![pipeline.to_owned(), stage.stage.to_string()],
            figure: Figure::Number(figure(stage)),
        })
    };
    BY_STAGE.iter().flat_map(|(metric, figure)| sample(metric, *figure)).collect()
}

/// What is known of the engine, also while it does not answer.
pub fn engine_samples(pipeline: &str, outage: Option<&EngineOutage>) -> Vec<Sample> {
    let sample = |metric: &'static Metric, number: u64| Sample {
        metric,
        labels: vec![pipeline.to_owned()],
        figure: Figure::Number(number),
    };
    let kept = outage.map_or(0, |outage| u64::try_from(outage.kept).unwrap_or(u64::MAX));
    vec![sample(&ENGINE_UP, outage.is_none().into()), sample(&ANSWERS_KEPT, kept)]
}

/// The same with what this process did, in place of what all processes did: for a destination that adds up its processes.
pub fn samples_of_process(pipeline: &str, mut progress: Progress, own: &OwnEvents) -> Vec<Sample> {
    let own = own.by_stage();
    for stage in &mut progress.stages {
        stage.events = own.get(&stage.stage).copied().unwrap_or_default();
    }
    samples(pipeline, &progress)
}

/// The metrics of each stage, and what each shows.
static BY_STAGE: [(&Metric, fn(&StageProgress) -> u64); 10] = [
    (&QUEUE_DEPTH, |stage| stage.ready + stage.retrying + stage.held),
    (&RUNNING, |stage| stage.running),
    (&DEAD_LETTERS, |stage| stage.dead),
    (&PAUSED, |stage| stage.paused.into()),
    (&CALLS, |stage| stage.events.claimed),
    (&SUCCESS, |stage| stage.events.completed),
    (&FAILURE, |stage| stage.events.failures),
    (&CRASHES, |stage| stage.events.crashes),
    (&RATE_LIMITED, |stage| stage.events.rate_limited),
    (&LATE, |stage| stage.events.late),
];
