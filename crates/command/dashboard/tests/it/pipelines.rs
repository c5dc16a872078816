//! Pipelines: their stages in the stream, jobs by filter, and what operators do.

use std::sync::Arc;

use serde_json::{Value, json};
use tollway::Timestamp;
use tollway::core::Span;
use tollway_dashboard::PipelineSource;
use tollway_pipeline::{
    Attempt, Cause, ClaimRequest, Conclusion, ConfigWithPipelines, Engine, NewJob, SqliteEngine,
};

use crate::client::ask;
use crate::running::{Running, Setup};

/// A server with a pipeline of one stage, in a file of its own.
struct WithPipeline {
    server: Running,
    engine: Arc<dyn Engine>,
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

impl WithPipeline {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let text = format!(
            "[policies.v]\nlimits = ['9 / hour']\n[pipelines.pdf]\nengine = 'sqlite:{}'\n\
             [[pipelines.pdf.stages]]\nname = 'work'\ntake = {{ v = {{ requests = 1 }} }}\nhandler = {{ command = ['true'] }}",
            file.display()
        );
        let config = ConfigWithPipelines::parse(&text).unwrap().pipelines()[0].clone();
        let engine: Arc<dyn Engine> = Arc::new(SqliteEngine::open(&file).unwrap());
        let source_engine = Arc::clone(&engine);
        let server = Setup::of("[policies.v]\nlimits = ['9 / hour']")
            .writing()
            .start_with(move |builder| builder.pipeline(PipelineSource::of_engine(config, source_engine)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { server, engine, runtime, _folder: folder }
    }

    fn now(&self) -> Timestamp {
        self.server.limiter.clock().now()
    }

    /// Makes dead letters with this error.
    fn dead(&self, jobs: usize, error: &str) {
        let stage = tollway::Name::new("work").unwrap();
        self.runtime.block_on(async {
            let new = (0..jobs)
                .map(|job| NewJob::new(&stage, &format!("{error}-{job}"), r#"{"page": 1}"#).unwrap());
            self.engine.enqueue(new.collect(), self.now()).await.unwrap();
            for _ in 0..jobs {
                let request = ClaimRequest::new(&stage, "test", Span::from_mins(5));
                let claimed = self.engine.claim(request, self.now()).await.unwrap().remove(0);
                let conclusion = Conclusion::Dead { attempt: Attempt::new(Cause::Failure, error) };
                self.engine.finish(claimed.claim, conclusion, self.now()).await.unwrap();
            }
        });
    }

    fn get(&self, path: &str) -> Value {
        self.server.get(&format!("/v1/view/pipelines/pdf{path}")).json()
    }

    fn post(&self, what: &str, body: &Value) -> crate::client::Answer {
        self.server.send("POST", &format!("/v1/pipelines/pdf/{what}"), &body.to_string())
    }
}

/// P6: stages, dead letters and their sum are in the stream; jobs are asked for.
#[test]
fn stages_are_in_the_stream_and_jobs_behind_it() {
    let pipeline = WithPipeline::start();
    pipeline.dead(2, "HTTP 500");
    pipeline.dead(1, "timeout");
    let mut live = pipeline.server.live();
    live.until("read", |state| state.pipelines.iter().any(|pipeline| pipeline.dead == 3));
    assert_eq!(live.state.pipelines[0].stages[0].name, "work");
    assert!(live.state.sentence.text.ends_with("3 dead letters"), "{:?}", live.state.sentence);
    assert!(
        live.state.alarms.iter().any(|alarm| alarm.kind == "dead_letters:pdf") || {
            live.next();
            live.state.alarms.iter().any(|alarm| alarm.kind == "dead_letters:pdf")
        }
    );
    assert_eq!(pipeline.get("")["stages"][0]["dead"], 3);
    let dead = pipeline.get("/dead");
    assert_eq!((&dead["counts"][0]["error"], &dead["counts"][0]["jobs"]), (&"HTTP 500".into(), &2.into()));
    let jobs = pipeline.get("/jobs?state=dead&error=timeout");
    assert_eq!((&jobs["total"], &jobs["jobs"][0]["error"]), (&1.into(), &"timeout".into()));
    let id = jobs["jobs"][0]["id"].clone();
    assert_eq!(pipeline.get(&format!("/jobs?search={id}"))["jobs"][0]["id"], id);
    let job = pipeline.get(&format!("/jobs/{id}"));
    assert_eq!(
        (&job["jobs"][0]["data"]["page"], &job["jobs"][0]["attempts"][0]["error"]),
        (&1.into(), &"timeout".into())
    );
    assert_eq!(ask(pipeline.server.admin, "GET", "/v1/view/pipelines/pdf/jobs", "", "").status, 401);
    assert_eq!(pipeline.server.get("/v1/view/pipelines/other").status, 404);
}

/// P6: a change is made of as many jobs as a person confirmed, or not at all.
#[test]
fn a_redrive_of_more_than_was_confirmed_is_refused() {
    let pipeline = WithPipeline::start();
    pipeline.dead(3, "HTTP 500");
    pipeline.dead(1, "timeout");
    let redrive = |expected: u64| {
        pipeline.post("redrive", &json!({ "filter": { "error": "500" }, "expected": expected }))
    };
    let refused = redrive(2);
    assert_eq!((refused.status, &refused.json()["jobs"]), (409, &3.into()));
    assert_eq!(pipeline.get("/jobs?state=dead")["total"], 4);
    let done = redrive(3);
    assert_eq!((done.status, &done.json()["jobs"]), (200, &3.into()));
    assert_eq!(pipeline.get("/jobs?state=ready")["total"], 3);
    assert_eq!(pipeline.post("drop", &json!({ "expected": 1 })).json()["jobs"], 1);
    assert_eq!(pipeline.get("/jobs?state=dead")["total"], 0);
    assert_eq!(pipeline.post("redrive", &json!({ "expected": 1, "filtre": {} })).status, 400);
    let changes = pipeline.get("")["changes"].clone();
    assert_eq!(
        (&changes[1]["what"], &changes[1]["from"]),
        (&r#"redrive {"id":null,"key":null,"stage":null,"group":null,"error":"500"}"#.into(), &"3".into())
    );
}

/// P6: stages are paused, resumed and limited, and dead letters corrected, unless they changed meanwhile.
#[test]
fn operators_change_stages_and_dead_letters() {
    let pipeline = WithPipeline::start();
    pipeline.dead(1, "bad data");
    assert_eq!(pipeline.post("pause", &json!({ "stage": "work" })).json()["stages"][0]["paused"], true);
    let mut live = pipeline.server.live();
    live.until("paused", |state| state.pipelines.iter().any(|pipeline| pipeline.stages[0].paused.is_some()));
    assert_eq!(pipeline.post("resume", &json!({})).json()["stages"][0]["paused"], false);
    assert_eq!(pipeline.post("pause", &json!({ "stage": "nothing" })).status, 404);
    assert_eq!(pipeline.post("concurrency", &json!({ "stage": "work", "concurrency": 7 })).status, 200);
    let job = pipeline.get("/jobs?state=dead")["jobs"][0].clone();
    let edit = |claims: u64| {
        let body = json!({ "data": { "page": 2 }, "claims": claims }).to_string();
        pipeline.server.send("PUT", &format!("/v1/pipelines/pdf/jobs/{}/data", job["id"]), &body)
    };
    let claims = job["claims"].as_u64().unwrap();
    assert_eq!(edit(claims + 1).status, 409);
    assert_eq!(edit(claims).status, 200);
    assert_eq!(pipeline.get(&format!("/jobs/{}", job["id"]))["jobs"][0]["data"]["page"], 2);
}

/// P6: jobs come over HTTP as they come from a file, once each.
#[test]
fn jobs_are_enqueued_over_http() {
    let pipeline = WithPipeline::start();
    let lines = "{\"key\": \"a\", \"page\": 1}\n{\"key\": \"b\", \"page\": 2}\nnot json\n";
    let send = |query: &str| pipeline.server.send("POST", &format!("/v1/pipelines/pdf/jobs{query}"), lines);
    let first = send("").json();
    assert_eq!(
        (&first["stage"], &first["new"], &first["known"], &first["bad"]),
        (&"work".into(), &2.into(), &0.into(), &1.into())
    );
    assert!(first["errors"][0].as_str().unwrap().starts_with("line 3: "), "{first}");
    assert_eq!(
        (&send("?again=true").json()["known"], &send("?key=page").json()["new"]),
        (&2.into(), &2.into())
    );
    assert_eq!(send("?stage=nothing").status, 404);
    let large = "x".repeat((1 << 20) + 1);
    assert_eq!(pipeline.server.send("POST", "/v1/pipelines/pdf/jobs", &large).status, 413);
    assert_eq!(ask(pipeline.server.admin, "POST", "/v1/pipelines/pdf/jobs", "", lines).status, 401);
}
