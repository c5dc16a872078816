//! `tollway pipeline enqueue`, `run` and `status` as a user runs them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::home::Home;

/// Does a job as its data says, and answers in the protocol of subprocess handlers.
const WORKER: &str = r#"
import json, os, sys, time
for line in sys.stdin:
    job = json.loads(line)["job"]
    data = job["data"]
    if data.get("fail"):
        answer = {"retry": job["id"], "error": "page 7 cannot be read"}
    elif job["stage"] == "extract":
        answer = {"done": job["id"], "result": {"by": open("version").read().strip()}}
    else:
        while data.get("waits_for") and not os.path.exists(data["waits_for"]):
            time.sleep(0.01)
        answer = {"done": job["id"], "outputs": [{"data": data}]}
    print(json.dumps(answer), flush=True)
"#;

const CONFIG: &str = r#"
[store]
url = "file:state"
[policies.adobe]
limits = ["100k requests / minute"]
[pipelines.pdf]
engine = "sqlite:pdf.db"
[[pipelines.pdf.stages]]
name = "autotag"
take = { adobe = { requests = 1 } }
handler = { command = ["python3", "worker.py"] }
concurrency = 2
tries = 1
[[pipelines.pdf.stages]]
name = "extract"
take = { adobe = { requests = 1 } }
handler = { command = ["python3", "worker.py"] }
concurrency = 2
"#;

pub(crate) fn home(config: &str) -> Home {
    let home = Home::with_config(config);
    home.write("worker.py", WORKER);
    home.write("version", "first");
    home
}

/// A file of jobs with these keys.
pub(crate) fn jobs(home: &Home, keys: impl IntoIterator<Item = u32>, rest: &str) {
    let lines = keys.into_iter().map(|key| format!("{{\"key\": \"{key}\"{rest}}}\n"));
    home.write("jobs.jsonl", lines.collect::<String>());
}

pub(crate) fn enqueue(home: &Home) -> Value {
    let (code, answer, error) = home.run(&["pipeline", "enqueue", "jobs.jsonl", "--json"]);
    assert_eq!(code, 0, "{error}");
    serde_json::from_str(&answer).unwrap()
}

pub(crate) fn status(home: &Home) -> Value {
    let (code, answer, error) = home.run(&["pipeline", "status", "--json"]);
    assert_eq!(code, 0, "{error}");
    serde_json::from_str(&answer).unwrap()
}

/// A pipeline that runs.
pub(crate) struct Run {
    process: Child,
}

impl Run {
    pub(crate) fn start(home: &Home, arguments: &[&str]) -> Self {
        Self::start_to(home, arguments, Stdio::piped())
    }

    /// The same with its log in the file `log`, where it can be read while it runs.
    pub(crate) fn start_logging(home: &Home, arguments: &[&str]) -> Self {
        Self::start_to(home, arguments, File::create(home.path().join("log")).unwrap().into())
    }

    fn start_to(home: &Home, arguments: &[&str], log: Stdio) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollway"));
        command
            .args(["pipeline", "run", "--json"])
            .args(arguments)
            .current_dir(home.path())
            .env("HOME", home.path());
        command.env_remove("TOLLWAY_CONFIG").stdout(Stdio::piped()).stderr(log);
        Self { process: command.spawn().unwrap() }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end: exit code, summary, log.
    pub(crate) fn end(self) -> (i32, String, String) {
        let output = self.process.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }
}

/// Asks again until it is so. Only the test's own timeout ends it.
pub(crate) fn wait_until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn stage(status: &Value, index: usize, field: &str) -> u64 {
    status["stages"][index][field].as_u64().unwrap()
}

#[test]
fn backlog_is_done_and_counted() {
    let home = home(CONFIG);
    jobs(&home, 1..=20, "");
    assert_eq!(enqueue(&home)["new"], 20);
    let (code, summary, log) = Run::start(&home, &[]).end();
    assert_eq!(code, 0, "{log}");
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!((&summary["done"], &summary["stages"][1]["done"]), (&true.into(), &20.into()), "{summary}");
    let status = status(&home);
    assert_eq!((stage(&status, 0, "done"), stage(&status, 1, "done")), (20, 20));
    let quota = &status["quota"][0]["limits"][0];
    assert!(quota["used"].as_u64().is_some_and(|used| used <= 40), "{quota}");
    // Done jobs are known: the same file changes nothing.
    let again = enqueue(&home);
    assert_eq!((&again["new"], &again["known"]), (&0.into(), &20.into()));
}

#[test]
fn bad_lines_are_reported_and_good_ones_kept() {
    let home = home(CONFIG);
    home.write("jobs.jsonl", "{\"key\": 1}\n{\"key\": \nnonsense\n{\"key\": 2}\n{\"name\": 3}\n");
    let (code, answer, error) = home.run(&["pipeline", "enqueue", "jobs.jsonl"]);
    assert_eq!(code, 65, "{error}");
    assert!(answer.contains("2 new jobs") && answer.contains("3 records bad"), "{answer}");
    for line in ["line 2:", "line 3:", "line 5:"] {
        assert!(error.contains(line), "{error}");
    }
    let (code, answer, _) = home.run(&["pipeline", "enqueue", "jobs.jsonl", "--key", "name", "--dry-run"]);
    assert_eq!(code, 65);
    assert!(answer.contains("1 job") && answer.contains("nothing was enqueued"), "{answer}");
}

#[test]
fn table_is_read_from_standard_input() {
    let home = home(CONFIG);
    let mut command =
        home.tollway(&["pipeline", "enqueue", "-", "--format", "csv", "--key", "mail", "--json"]);
    let output = command.write_stdin("mail,name\na@b,\"A, B\"\nc@d,C\n").output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["new"], &answer["bad"]), (&2.into(), &0.into()), "{answer}");
}

/// The small batch of P8: five jobs pass both stages, the others stay.
#[test]
fn small_batch_ends() {
    let home = home(CONFIG);
    jobs(&home, 1..=20, "");
    enqueue(&home);
    let (code, _, log) = Run::start(&home, &["--jobs", "5"]).end();
    assert_eq!(code, 0, "{log}");
    let status = status(&home);
    assert_eq!(
        (stage(&status, 0, "done"), stage(&status, 1, "done"), stage(&status, 0, "ready")),
        (5, 5, 15)
    );
}

#[test]
fn dead_letters_have_their_exit_code() {
    let home = home(CONFIG);
    jobs(&home, 1..=2, ", \"fail\": true");
    enqueue(&home);
    let (code, summary, log) = Run::start(&home, &[]).end();
    assert_eq!(code, 65, "{log}");
    assert!(summary.contains("\"dead\":2"), "{summary}");
    let (code, _, _) = home.run(&["pipeline", "status", "--check"]);
    assert_eq!(code, 1);
}

#[test]
fn stopped_run_gives_back_and_the_next_one_goes_on() {
    let home = home(CONFIG);
    jobs(&home, 1..=4, ", \"waits_for\": \"go\"");
    enqueue(&home);
    let run = Run::start(&home, &["--grace", "1ms"]);
    wait_until(|| stage(&status(&home), 0, "running") == 2);
    run.signal("-TERM");
    let (code, summary, log) = run.end();
    assert_eq!(code, 75, "{log}");
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!((&summary["stopped"], &summary["given_back"]), (&true.into(), &2.into()), "{summary}");
    home.write("go", "");
    let (code, _, log) = Run::start(&home, &[]).end();
    assert_eq!(code, 0, "{log}");
    let status = status(&home);
    assert_eq!(
        (stage(&status, 1, "done"), stage(&status, 0, "failures"), stage(&status, 0, "crashes")),
        (4, 0, 0)
    );
}

#[test]
fn killed_run_loses_nothing() {
    let home = home(CONFIG);
    jobs(&home, 1..=4, ", \"waits_for\": \"go\"");
    enqueue(&home);
    let mut run = Run::start(&home, &[]);
    wait_until(|| stage(&status(&home), 0, "running") == 2);
    run.process.kill().unwrap();
    run.end();
    home.write("go", "");
    let (code, _, log) = Run::start(&home, &[]).end();
    assert_eq!(code, 0, "{log}");
    assert_eq!(stage(&status(&home), 1, "done"), 4);
}

/// Commands reach the jobs through the process that runs them; a second one that wants to run them is refused.
#[test]
fn one_process_runs_a_file_and_others_ask_it() {
    let home = home(CONFIG);
    jobs(&home, 1..=2, ", \"waits_for\": \"go\"");
    enqueue(&home);
    let run = Run::start(&home, &[]);
    wait_until(|| stage(&status(&home), 0, "running") == 2);
    let (code, _, error) = home.run(&["pipeline", "run"]);
    assert_eq!(code, 75, "{error}");
    assert!(error.contains(&format!("belongs to process {}", run.process.id())), "{error}");
    jobs(&home, 3..=5, "");
    assert_eq!(enqueue(&home)["new"], 3);
    home.write("go", "");
    let (code, _, log) = run.end();
    assert_eq!(code, 0, "{log}");
    assert_eq!(stage(&status(&home), 1, "done"), 5);
}

#[test]
fn reload_starts_fresh_handlers_and_keeps_claims() {
    let home = home(CONFIG);
    jobs(&home, 1..=2, ", \"waits_for\": \"go\"");
    enqueue(&home);
    let mut run = Run::start(&home, &["--stay"]);
    let mut log = BufReader::new(run.process.stderr.take().unwrap()).lines().map(Result::unwrap);
    wait_until(|| stage(&status(&home), 0, "running") == 2);
    home.write("tollway.toml", "nonsense");
    run.signal("-HUP");
    assert!(log.any(|line| line.contains("the previous one stays in force")));
    home.write("worker.py", WORKER.replace("open(\"version\").read().strip()", "\"second\""));
    home.write("tollway.toml", CONFIG.replace("concurrency = 2", "concurrency = 3"));
    run.signal("-HUP");
    assert!(log.any(|line| line.contains("config reloaded")));
    jobs(&home, 3..=3, ", \"waits_for\": \"go\"");
    enqueue(&home);
    // The third job only fits the new concurrency.
    wait_until(|| stage(&status(&home), 0, "running") == 3);
    home.write("go", "");
    wait_until(|| stage(&status(&home), 1, "done") == 3);
    run.signal("-TERM");
    log.for_each(drop);
    assert_eq!(run.end().0, 0);
    let engine = tollway_pipeline::SqliteEngine::open(&home.path().join("pdf.db")).unwrap();
    let extract = tollway::core::Name::new("extract").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let results = tollway_pipeline::Engine::results(&engine, &extract, None, 10);
    let results = runtime.block_on(results).unwrap().items;
    assert!(results.iter().all(|job| job.number == 1), "{results:?}");
    assert!(results.iter().any(|job| job.result.as_deref() == Some("{\"by\": \"second\"}")), "{results:?}");
}

#[test]
fn metrics_show_every_stage() {
    let home = home(CONFIG);
    jobs(&home, 1..=3, ", \"waits_for\": \"go\"");
    enqueue(&home);
    let mut run = Run::start(&home, &["--metrics", "127.0.0.1:0", "--log-level", "info"]);
    let mut log = BufReader::new(run.process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("/metrics") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "no address was logged");
    }
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    wait_until(|| stage(&status(&home), 0, "running") == 2);
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    for line in [
        "tollway_pipeline_queue_depth{pipeline=\"pdf\",stage=\"autotag\"} 1",
        "tollway_pipeline_running{pipeline=\"pdf\",stage=\"autotag\"} 2",
        "tollway_pipeline_calls_total{pipeline=\"pdf\",stage=\"autotag\"} 2",
        "tollway_pipeline_success_total{pipeline=\"pdf\",stage=\"extract\"} 0",
        "RateLimiterTokensAcquired{policy=\"adobe\"",
    ] {
        assert!(text.contains(line), "{line} is missing:\n{text}");
    }
    home.write("go", "");
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    assert_eq!(run.process.wait().unwrap().code(), Some(0));
}

/// Lines of the log, and the summary that the command says on standard error, are JSON objects if it was started so.
#[test]
fn log_and_summary_are_json_lines() {
    let home = home(CONFIG);
    jobs(&home, 1..=2, ", \"fail\": true");
    enqueue(&home);
    let ended =
        home.tollway(&["pipeline", "run", "--log-format", "json", "--log-level", "debug"]).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line["time"].is_string() && line["level"].is_string()), "{said}");
    let remark = lines.iter().find(|line| line["message"].as_str().unwrap().starts_with("see why:"));
    assert_eq!(remark.unwrap()["level"], "info", "{said}");
    assert!(lines.iter().any(|line| line["target"].is_string() && line["fields"].is_object()), "{said}");
}

/// Ten dead letters raise an alarm, and the end is told, too.
#[test]
fn webhook_gets_alarms_and_the_end() {
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", receiver.local_addr().unwrap());
    let incidents = format!("[incidents]\nwebhook = \"{url}\"\nsecret = {{ env = \"HOOK_SECRET\" }}\n");
    let home = home(&format!("{incidents}{CONFIG}"));
    jobs(&home, 1..=10, ", \"fail\": true");
    enqueue(&home);
    jobs(&home, 11..=11, ", \"waits_for\": \"go\"");
    enqueue(&home);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollway"));
    command.args(["pipeline", "run", "--json"]).current_dir(home.path()).env("HOME", home.path());
    command
        .env("HOOK_SECRET", "secret")
        .env_remove("TOLLWAY_CONFIG")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut run = command.spawn().unwrap();
    let mut kinds = Vec::new();
    while !kinds.iter().any(|kind| kind == "pipeline_done") {
        let body = receive(&receiver);
        kinds.push(body["event"].as_str().unwrap().to_owned());
        if body["event"] == "alarm" && body["alarm"]["alarm"] == "dead_letters" {
            assert_eq!(
                (&body["alarm"]["pipeline"], &body["alarm"]["stage"]),
                (&"pdf".into(), &"autotag".into())
            );
            home.write("go", "");
        }
    }
    assert!(kinds.iter().any(|kind| kind == "alarm"), "{kinds:?}");
    assert_eq!(run.wait().unwrap().code(), Some(65));
}

/// Dead letters wait for an operator: a service that starts again with them does not report them as news.
#[test]
fn dead_letters_of_an_earlier_run_are_no_error_again() {
    let home = home(CONFIG);
    jobs(&home, 1..=10, ", \"fail\": true");
    enqueue(&home);
    jobs(&home, 11..=11, ", \"waits_for\": \"go\"");
    enqueue(&home);
    let mut first = Run::start(&home, &["--grace", "1ms"]);
    let mut log = BufReader::new(first.process.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(log.any(|line| line.contains("ERROR") && line.contains("10 dead letters")));
    first.signal("-TERM");
    log.for_each(drop);
    first.end();
    // What a process keeps in its second minute.
    let engine = tollway_pipeline::SqliteEngine::open(&home.path().join("pdf.db")).unwrap();
    let soon = tollway::Clock::now(&tollway_memory::WallClock).plus(tollway::core::Span::from_mins(1));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(tollway_pipeline::Engine::record(&engine, soon)).unwrap();
    drop(engine);
    let mut second = Run::start(&home, &[]);
    let mut lines = BufReader::new(second.process.stderr.take().unwrap()).lines().map(Result::unwrap);
    let before: Vec<String> = lines.by_ref().take_while(|line| !line.contains("goes on")).collect();
    home.write("go", "");
    let log: Vec<String> = before.into_iter().chain(lines).collect();
    assert!(!log.iter().any(|line| line.contains("ERROR")), "{log:?}");
    second.end();
}

/// The body of one request, which is answered with 204.
fn receive(listener: &TcpListener) -> Value {
    let (mut connection, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    connection.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn config_without_a_pipeline_says_what_to_do() {
    let home = Home::with_config("[policies.adobe]\nlimits = [\"2 requests / minute\"]\n");
    let (code, _, error) = home.run(&["pipeline", "status"]);
    assert_eq!(code, 78);
    assert!(error.contains("[pipelines.NAME]"), "{error}");
    let (code, _, error) = home.run(&["pipeline", "--pipeline", "x", "status"]);
    assert_eq!(code, 78, "{error}");
}

#[test]
fn status_before_any_job_says_what_to_do() {
    let (code, _, error) = home(CONFIG).run(&["pipeline", "status"]);
    assert_eq!(code, 2);
    assert!(error.contains("enqueue some first"), "{error}");
}

#[test]
fn unit_starts_this_config() {
    let home = home(CONFIG);
    let (code, unit, error) = home.run(&["pipeline", "unit", "--user", "tollway"]);
    assert_eq!(code, 0, "{error}");
    let config = home.path().canonicalize().unwrap().join("tollway.toml");
    let line = format!("--config {} pipeline --pipeline pdf run --stay --grace 30s", config.display());
    assert!(unit.contains(&line) && unit.contains("ExecReload=") && unit.contains("User=tollway"), "{unit}");
}
