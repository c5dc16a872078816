//! Pipelines: their stages in the stream, jobs by filter, and what operators do.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tollway::Timestamp;
use tollway::core::Span;
use tollway_dashboard::PipelineSource;
use tollway_pipeline::run::alarm::Alarm;
use tollway_pipeline::run::progress::HandlerOutage;
use tollway_pipeline::run::{AlarmView, LastError, RunnerView};
use tollway_pipeline::{
    Attempt, Cause, ClaimRequest, Conclusion, ConfigWithPipelines, Engine, EngineOpener, Filter, NewJob,
    PipelineConfig, SocketServer, SqliteEngine, State,
};

use crate::client::{Live, ask};
use crate::history::until;
use crate::running::{Running, Setup};

/// A server with a pipeline of one stage, in a file of its own.
struct WithPipeline {
    server: Running,
    /// None: other processes may have its file.
    engine: Option<Arc<dyn Engine>>,
    runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
}

impl WithPipeline {
    fn start() -> Self {
        Self::start_with(|config, engine, _| PipelineSource::of_engine(config, engine))
    }

    /// With what reaches its jobs, made of its config, its engine and its file.
    fn start_with(
        source: impl FnOnce(PipelineConfig, Arc<dyn Engine>, &Path) -> PipelineSource + Send,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let text = format!(
            "[policies.v]\nlimits = ['9 / hour']\n[pipelines.pdf]\nengine = 'sqlite:{}'\n\
             [[pipelines.pdf.stages]]\nname = 'work'\ntake = {{ v = {{ requests = 1 }} }}\nhandler = {{ command = ['true'] }}",
            file.display()
        );
        let config = ConfigWithPipelines::parse(&text).unwrap().pipelines()[0].clone();
        let engine: Arc<dyn Engine> = Arc::new(SqliteEngine::open(&file).unwrap());
        let source = source(config, Arc::clone(&engine), &file);
        let server = Setup::of("[policies.v]\nlimits = ['9 / hour']")
            .writing()
            .start_with(move |builder| builder.pipeline(source));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { server, engine: Some(engine), runtime, folder }
    }

    fn now(&self) -> Timestamp {
        self.server.limiter.clock().now()
    }

    /// Makes dead letters with this error.
    fn dead(&self, jobs: usize, error: &str) {
        let (stage, engine) = (tollway::Name::new("work").unwrap(), self.engine.as_ref().unwrap());
        self.runtime.block_on(async {
            let new = (0..jobs)
                .map(|job| NewJob::new(&stage, &format!("{error}-{job}"), r#"{"page": 1}"#).unwrap());
            engine.enqueue(new.collect(), self.now()).await.unwrap();
            for _ in 0..jobs {
                let request = ClaimRequest::new(&stage, "test", Span::from_mins(5));
                let claimed = engine.claim(request, self.now()).await.unwrap().remove(0);
                let conclusion = Conclusion::Dead { attempt: Attempt::new(Cause::Failure, error) };
                engine.finish(claimed.claim, conclusion, self.now()).await.unwrap();
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

/// T22: what the process says that runs the pipeline has no error for a client without a token, and for others it has.
#[test]
fn overview_has_no_error_of_the_runner() {
    let owner = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (stage, at) = (tollway::Name::new("work").unwrap(), Timestamp::from_secs(7));
    let error = "MARKER of a job".to_owned();
    let outage = HandlerOutage { since: at, next_try_at: at, error: error.clone() };
    let alarm = Alarm::HandlerUnreachable { stage: stage.clone(), since: at, error: error.clone() };
    let view = RunnerView {
        unreachable: [(stage.clone(), outage)].into(),
        last_error: Some(LastError { at, stage, error }),
        alarms: vec![AlarmView::of(&alarm)],
        ..RunnerView::default()
    };
    let mut socket = None;
    let pipeline = WithPipeline::start_with(|config, engine, file| {
        let server = owner.block_on(async { SocketServer::start(file, engine).unwrap() });
        server.show(move || view.clone());
        socket = Some(server);
        PipelineSource::beside(config, EngineOpener::default())
    });
    let path = "/v1/view/pipelines/pdf";
    let with = pipeline.server.get(path).body;
    assert_eq!(with.matches("MARKER").count(), 4, "{with}");
    let without = ask(pipeline.server.admin, "GET", path, "", "");
    assert!(without.status == 200 && !without.body.contains("MARKER"), "{without:?}");
    assert!(without.body.contains("needs a token") && without.body.contains("handler_unreachable"));
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
        (&changes[1]["what"], &changes[1]["from"], &changes[1]["to"]),
        (&"redrive dead letters".into(), &"3 jobs".into(), &"3 jobs changed".into())
    );
}

/// T22: errors, keys, groups and filters of jobs are in no answer to a client without a token, also not as a change.
#[test]
fn overview_has_nothing_of_a_job() {
    let pipeline = WithPipeline::start();
    pipeline.dead(2, "MARKER in an error");
    let filter = json!({ "error": "MARKER", "stage": "work" });
    assert_eq!(pipeline.post("redrive", &json!({ "filter": filter, "expected": 2 })).status, 200);
    for filter in [json!({ "key": "MARKER-key" }), json!({ "group": "MARKER-group" })] {
        assert_eq!(pipeline.post("drop", &json!({ "filter": filter, "expected": 0 })).status, 200);
    }
    let mut live = pipeline.server.live();
    live.until("read", |state| state.pipelines.iter().any(|pipeline| pipeline.stages[0].ready == 2));
    let mut without = Live::open(pipeline.server.admin, "");
    without.next();
    let shown = serde_json::to_string(&without.state).unwrap();
    assert!(shown.contains("work") && !shown.contains("MARKER"), "{shown}");
    let document = pipeline.server.get("/openapi.json").json();
    let mut read = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        // `/v1/live` was read above: its answer has no end.
        if methods["get"].is_null() || path == "/v1/live" {
            continue;
        }
        let path = path.replace("{pipeline}", "pdf").replace("{policy}", "v").replace("{id}", "1");
        let answer = ask(pipeline.server.admin, "GET", &path, "", "");
        assert!(!answer.body.contains("MARKER"), "{path}: {answer:?}");
        read += u32::from(answer.status == 200);
    }
    assert!(read >= 5, "{read} answers");
    let view = ask(pipeline.server.admin, "GET", "/v1/view/pipelines/pdf", "", "").json();
    assert_eq!(view["changes"][2]["what"], "redrive dead letters of stage work");
}

/// P6: a redrive at a rate leaves the file of jobs to others between its steps. If it fails, its page says how far it came.
#[test]
fn a_slow_redrive_leaves_the_file_to_others_and_says_how_it_ended() {
    let mut pipeline =
        WithPipeline::start_with(|config, _, _| PipelineSource::beside(config, EngineOpener::default()));
    pipeline.dead(200, "HTTP 500");
    pipeline.engine = None;
    let asked = json!({ "expected": 200, "per_minute": 60 });
    assert_eq!(pipeline.post("redrive", &asked).json()["running"], true);
    let file = pipeline.folder.path().join("jobs.db");
    let engine = until("the file is free", || SqliteEngine::open(&file).ok());
    let filter = Filter { state: Some(State::Dead), ..Filter::default() };
    let left = pipeline.runtime.block_on(engine.matching(filter)).unwrap();
    assert!(left > 0, "it took the file between two steps");
    let changes = || pipeline.get("")["changes"].as_array().cloned().unwrap_or_default();
    let change = until("its end is noted", || changes().first().cloned());
    let wanted = format!(
        "{} changed, then failed",
        match 200 - left {
            1 => "1 job".to_owned(),
            jobs => format!("{jobs} jobs"),
        }
    );
    assert_eq!((&change["from"], &change["to"]), (&"200 jobs".into(), &wanted.into()));
}

/// T23: a change whose client goes away is made to its end, and noted.
#[test]
fn a_change_without_its_client_is_made_and_noted() {
    const JOBS: usize = 30_000;
    let pipeline = WithPipeline::start();
    let lines: String = (0..JOBS).map(|job| format!("{{\"key\":\"{job}\"}}\n")).collect();
    let mut client = TcpStream::connect(pipeline.server.admin).unwrap();
    let (link, length) = (&pipeline.server.link, lines.len());
    let path = "/v1/pipelines/pdf/jobs";
    write!(
        client,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{link}content-length: {length}\r\n\r\n{lines}"
    )
    .unwrap();
    let ready = || pipeline.get("")["stages"][0]["ready"].as_u64();
    until("the first jobs", || ready().filter(|ready| *ready > 0));
    drop(client);
    let change = until("a line", || pipeline.get("")["changes"].get(0).cloned());
    assert_eq!((&change["to"], ready()), (&format!("{JOBS} new").into(), Some(30_000)));
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
    let seen = || pipeline.get(&format!("/jobs/{}", job["id"]))["jobs"][0].clone();
    let edit = |page: u64, version: &Value| {
        let body = json!({ "data": { "page": page }, "version": version }).to_string();
        pipeline.server.send("PUT", &format!("/v1/pipelines/pdf/jobs/{}/data", job["id"]), &body).status
    };
    let first = seen()["version"].clone();
    assert_eq!(edit(2, &first), 200);
    // Of two people who saw the same data, the second one overwrites nothing.
    assert_eq!(edit(3, &first), 409);
    assert_eq!(seen()["data"]["page"], 2);
    assert_eq!(edit(3, &seen()["version"]), 200);
    assert_eq!(seen()["data"]["page"], 3);
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
