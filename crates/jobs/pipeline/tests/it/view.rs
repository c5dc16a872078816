//! What operators see and change, as data.

use serde_json::{Value, json};
use tollway::Limiter;
use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::view::{
    DeadLetterKinds, JobChange, JobFacts, JobFilter, JobRate, KindOf, PipelineView, Reason, ViewError,
    WhyView, Wording, correct, find, set_paused,
};
use tollway_pipeline::{
    Attempt, Cause, Change, ClaimRequest, Conclusion, ConfigWithPipelines, Edit, Engine, Filter, NewJob,
    PipelineConfig, SqliteEngine, State,
};

const NOW: Timestamp = Timestamp::from_secs(500_000 * 3_600);

struct Lab {
    engine: SqliteEngine,
    config: PipelineConfig,
    limiter: Limiter,
    _folder: tempfile::TempDir,
}

impl Lab {
    /// Three dead letters of two errors in stage `a`, which has one more job.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = SqliteEngine::open(&folder.path().join("jobs.db")).unwrap();
        let config = ConfigWithPipelines::parse(
            r#"
            [policies.adobe]
            limits = ["200 requests / minute"]
            [pipelines.pdf]
            engine = "sqlite:jobs.db"
            [[pipelines.pdf.stages]]
            name = "a"
            take = { adobe = { requests = 1 } }
            handler = { command = ["true"] }
            "#,
        );
        let config = config.unwrap().pipelines().first().cloned().unwrap();
        let limiter = Limiter::builder().policy("adobe", ["200 requests / minute"]).unwrap().build();
        for key in ["1", "2", "3"] {
            engine.enqueue(vec![job(key)], NOW).await.unwrap();
            let claimed = engine.claim(ClaimRequest::new(&a(), "w", Span::from_mins(1)), NOW).await.unwrap();
            let error = if key == "2" { "HTTP 404" } else { "HTTP 500" };
            let dead = Conclusion::Dead { attempt: Attempt::new(Cause::Failure, error) };
            engine.finish(claimed[0].claim.clone(), dead, NOW).await.unwrap();
        }
        engine.enqueue(vec![job("4")], NOW).await.unwrap();
        Self { engine, config, limiter, _folder: folder }
    }

    async fn dead(&self, filter: JobFilter) -> Filter {
        filter.check(Some(State::Dead), &self.config, &self.engine).await.unwrap()
    }
}

fn a() -> Name {
    Name::new("a").unwrap()
}

fn job(key: &str) -> NewJob {
    NewJob::new(&a(), key, "{\"page\":\n7}").unwrap()
}

/// P8: what `status` shows is one value, and so are its live figures.
#[tokio::test]
async fn pipeline_is_one_value() {
    let lab = Lab::new().await;
    let view = PipelineView::read(&lab.engine, &lab.config, &lab.limiter, NOW).await.unwrap();
    assert!(!view.is_healthy(), "it has dead letters");
    let json = serde_json::to_value(&view).unwrap();
    let stage = &json["stages"][0];
    assert_eq!((&json["pipeline"], &stage["stage"]), (&json!("pdf"), &json!("a")));
    assert_eq!((&stage["ready"], &stage["dead"], &stage["failures"]), (&json!(1), &json!(3), &json!(3)));
    assert_eq!(json["at"], NOW.to_string());
    assert_eq!(json["quota"][0]["limits"][0]["capacity"], 200);
    assert_eq!(json.get("live"), None, "it was not asked for");
    let live = view.with_live(&lab.engine, None).await;
    assert_eq!(serde_json::to_value(&live).unwrap()["live"]["engine_away"], Value::Null);
    set_paused(&lab.engine, &[a()], true, NOW).await.unwrap();
    let view = PipelineView::read(&lab.engine, &lab.config, &lab.limiter, NOW).await.unwrap();
    let json = serde_json::to_value(&view).unwrap();
    assert_eq!(json["no_eta_because"], "no end in sight while a is paused");
}

/// P8: dead letters are counted by their error, and the change says what it would touch before it does.
#[tokio::test]
async fn dead_letters_of_one_error_are_tried_again_at_a_rate() {
    let lab = Lab::new().await;
    let all = lab.dead(JobFilter::default()).await;
    let kinds = DeadLetterKinds::count(&lab.engine, all, KindOf::Error, 1).await.unwrap();
    let row = json!({ "error": "HTTP 500", "jobs": 2, "example": 1 });
    let expected = json!({ "by": "error", "kinds": 2, "others": 0, "counts": [row] });
    assert_eq!(serde_json::to_value(&kinds).unwrap(), expected);
    let filter = lab.dead(JobFilter { error: Some("http 500".to_owned()), ..JobFilter::default() }).await;
    let rate = Some(JobRate::read("1 / minute").unwrap());
    let change = JobChange { filter, change: Change::Redrive, limit: None, rate };
    let matched = change.matched(&lab.engine).await.unwrap();
    assert_eq!((matched.matched, matched.states), (2, vec![(State::Dead, 2)]));
    let mut steps = change.steps(2);
    assert!(steps.step(&lab.engine, Span::ZERO, NOW).await.unwrap());
    assert_eq!((steps.changed(), steps.pause(Span::ZERO)), (1, Span::from_mins(1)));
    assert!(!steps.step(&lab.engine, Span::from_mins(1), NOW).await.unwrap());
    let counts = lab.engine.counts().await.unwrap();
    assert_eq!((steps.changed(), counts[0].of(State::Ready), counts[0].of(State::Dead)), (2, 3, 1));
}

/// P8: why a job is where it is, with the command to type.
#[tokio::test]
async fn job_says_why_it_is_dead() {
    let lab = Lab::new().await;
    let found = find(&lab.engine, "2").await.unwrap().remove(0);
    let facts = JobFacts::read(found, &lab.engine, &lab.config, Some(&lab.limiter), NOW).await.unwrap();
    let wording = Wording { zone: jiff::tz::TimeZone::UTC, pipeline: Some("pdf".to_owned()) };
    let why = WhyView::new(&facts, &Reason::of(&facts, &wording));
    let json = serde_json::to_value(&why).unwrap();
    assert_eq!(json["why"], json!(["its handler gave it up; the last error: HTTP 404"]));
    assert_eq!(json["next"][1], "tollway pipeline -p pdf dead redrive --id 2");
    assert_eq!((&json["state"], &json["data"]), (&json!("dead"), &json!({ "page": 7 })));
    let missing = find(&lab.engine, "none").await;
    assert!(matches!(missing, Err(ViewError::NotFound { .. })), "{missing:?}");
}

/// P8: an edit that a person made of a dead letter does not overwrite what happened to it meanwhile.
#[tokio::test]
async fn dead_letter_that_was_changed_meanwhile_is_not_corrected() {
    let lab = Lab::new().await;
    let seen = find(&lab.engine, "1").await.unwrap().remove(0);
    let edit = |data| Edit::default().data(data).unwrap();
    correct(&lab.engine, &seen, edit("1"), NOW).await.unwrap();
    let changed = correct(&lab.engine, &seen, edit("2"), NOW).await;
    assert!(matches!(&changed, Err(ViewError::Refused { .. })), "{changed:?}");
    assert_eq!(find(&lab.engine, "1").await.unwrap()[0].data, "1");
}
