//! Runs the example in a short form: with Python workers of which one is killed, and with a vendor that allows less than the
//! config says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tollway_pipeline::documents::ExtractMessage;
use tollway_pipeline::{ConfigWithPipelines, Engine, Filter, Job, SqliteEngine, State};

/// What the vendor allows in a minute.
const LIMIT: usize = 200;

fn example(folder: &Path, arguments: &[&str]) -> Command {
    let mut example = Command::new(env!("CARGO_BIN_EXE_adobe-pdf"));
    example.arg("--folder").arg(folder).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    example
}

/// What it printed, if it succeeded.
fn report(example: Child) -> String {
    let output = example.wait_with_output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
    report
}

/// The numbers in the line that begins like this.
fn numbers(report: &str, begins: &str) -> Vec<usize> {
    let line = report.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("{report}"));
    line.split(|sign: char| !sign.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// The vendor's own log: when, and with which status.
fn vendor_log(folder: &Path) -> Vec<(u64, u64)> {
    let text = fs::read_to_string(folder.join("vendor.jsonl")).unwrap_or_default();
    // The last line may be half written while the example runs.
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.map(|line| (line["at"].as_u64().unwrap(), line["status"].as_u64().unwrap())).collect()
}

/// Accepted calls in the fullest window of the clock.
fn fullest_window(log: &[(u64, u64)], seconds: u64) -> usize {
    let mut windows: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, _) in log.iter().filter(|(_, status)| *status == 200) {
        *windows.entry(at / (seconds * 1_000_000)).or_default() += 1;
    }
    windows.into_values().max().unwrap_or(0)
}

/// The Python processes that call the vendor, in this folder.
fn python_workers(folder: &Path) -> Vec<String> {
    let folder = folder.canonicalize().unwrap();
    let is_worker = |process: &PathBuf| {
        let mut command = Vec::new();
        let read =
            fs::File::open(process.join("cmdline")).and_then(|mut file| file.read_to_end(&mut command));
        let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
        // Its guard has the same words, behind a program and an argument of its own.
        read.is_ok()
            && words.get(1) == Some(&&b"worker.py"[..])
            && words.contains(&&b"--api"[..])
            && fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder)
    };
    let processes = fs::read_dir("/proc").unwrap().map(|process| process.unwrap().path()).filter(is_worker);
    processes.map(|process| process.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Every PDF's folder, with the names of its chunks.
fn pdfs(folder: &Path) -> Vec<(PathBuf, Vec<String>)> {
    let uploads = folder.join("files/your-bucket-name/uploads");
    let pdf = |path: PathBuf| {
        let chunks = fs::read_dir(path.join("chunks")).unwrap().map(|chunk| chunk.unwrap().file_name());
        let mut names: Vec<String> =
            chunks.map(|name| name.to_str().unwrap().strip_suffix(".pdf").unwrap().to_owned()).collect();
        names.sort();
        (path, names)
    };
    fs::read_dir(uploads).unwrap().map(|path| pdf(path.unwrap().path())).collect()
}

/// Every chunk has both outputs, and every PDF one result with all its chunks.
fn check_files(folder: &Path) {
    for (pdf, chunks) in pdfs(folder) {
        for chunk in &chunks {
            let tagged = fs::read(pdf.join(format!("output_autotag/COMPLIANT_{chunk}.pdf"))).unwrap();
            assert!(tagged.starts_with(b"%PDF-") && tagged.ends_with(b"% tagged\n"), "{pdf:?} {chunk}");
            let extracted = fs::read(pdf.join(format!("output_extract/{chunk}.json"))).unwrap();
            let extracted: Value = serde_json::from_slice(&extracted).unwrap();
            assert_eq!(extracted["elements"].as_array().unwrap().len(), 3, "{pdf:?} {chunk}");
        }
        let result: Value = serde_json::from_slice(&fs::read(pdf.join("result.json")).unwrap()).unwrap();
        let toc = result["toc"].as_array().unwrap().iter().map(|entry| entry["chunk"].as_str().unwrap());
        assert_eq!(toc.collect::<Vec<_>>(), chunks, "{pdf:?}");
        assert_eq!(result["images"].as_array().unwrap().len(), chunks.len(), "{pdf:?}");
    }
}

/// All jobs, after the example has ended.
fn jobs(folder: &Path) -> Vec<Job> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let engine = SqliteEngine::open(&folder.join("pdf.db")).unwrap();
    runtime.block_on(engine.scan(Filter::default(), None, 1_000)).unwrap().items
}

fn of_stage<'j>(jobs: &'j [Job], stage: &str) -> Vec<&'j Job> {
    jobs.iter().filter(|job| job.stage.as_str() == stage).collect()
}

/// P1: what AutoTag handed on is the documented message: these fields, in this order.
fn check_extract_message(job: &Job) {
    let message: ExtractMessage = serde_json::from_str(&job.data).unwrap();
    let written: Value = serde_json::from_str(&serde_json::to_string(&message).unwrap()).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&job.data).unwrap(), written, "{}", job.data);
    let fields = ["bucket", "chunk_key", "autotagged_key", "original_file_key", "job_id", "timestamp"];
    let places = fields.map(|field| job.data.find(&format!("\"{field}\"")).unwrap());
    assert!(places.is_sorted(), "{}", job.data);
    let folder = format!("uploads/{}", message.job_id);
    assert_eq!(message.original_file_key, format!("{folder}/original.pdf"));
    let name = message.chunk_key.strip_prefix(&format!("{folder}/chunks/")).unwrap();
    assert_eq!(message.autotagged_key, format!("{folder}/output_autotag/COMPLIANT_{name}"));
    assert!(job.data.contains("Z\""), "{}", job.data);
}

/// P1, P2, P3, P4: one quota for both stages, exact by the vendor's own log, although a worker with calls in flight is
/// killed; every chunk has its outputs, and every PDF one final upload.
#[test]
fn python_workers_share_the_quota_and_one_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let example = example(folder.path(), &["--pdfs", "60", "--minute", "6s"]).spawn().unwrap();
    // All of these are AutoTag's, each of which takes a second.
    while vendor_log(folder.path()).len() < 30 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let killed = python_workers(folder.path()).pop().unwrap();
    assert!(Command::new("kill").args(["-9", &killed]).status().unwrap().success());
    let report = report(example);

    let log = vendor_log(folder.path());
    assert!(log.iter().all(|(_, status)| *status == 200), "{report}");
    let fullest = fullest_window(&log, 6);
    assert!((1..=LIMIT).contains(&fullest), "{fullest} calls in a window: {report}");
    check_files(folder.path());

    let jobs = jobs(folder.path());
    assert!(jobs.iter().all(|job| job.state == State::Done), "{report}");
    let crashes: u32 = jobs.iter().map(|job| job.crashes).sum();
    assert!(crashes > 0, "the killed worker had no job: {report}");
    assert_eq!(jobs.iter().map(|job| job.failures + job.rate_limited).sum::<u32>(), 0, "{report}");
    let (chunks, pdfs) = (243, 60);
    let (tagged, extracted) = (of_stage(&jobs, "autotag"), of_stage(&jobs, "extract"));
    assert_eq!((tagged.len(), extracted.len()), (chunks, chunks));
    // Calls above two a chunk are those that were in flight when the worker was killed.
    assert!(
        (2 * chunks..=2 * chunks + crashes as usize).contains(&log.len()),
        "{} calls: {report}",
        log.len()
    );
    extracted.into_iter().for_each(check_extract_message);
    let finished = of_stage(&jobs, "finish");
    assert_eq!(finished.len(), pdfs);
    assert!(finished.iter().all(|job| job.claim_number == 1), "an upload was done twice: {report}");

    assert_eq!(numbers(&report, "calls "), [log.len(), 0], "{report}");
    assert_eq!(numbers(&report, "PDFs "), [pdfs, pdfs], "{report}");
    assert_eq!(numbers(&report, "jobs "), [0, crashes as usize, 0, 0], "{report}");
}

/// P3: a vendor that allows less than the config says refuses calls. They are made again after `Retry-After`, and use no try.
#[test]
fn refusals_of_the_vendor_use_no_try() {
    for workers in ["rust", "python"] {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["--pdfs", "8", "--minute", "2s", "--vendor-limit", "16", "--workers", workers];
        let report = report(example(folder.path(), &arguments).spawn().unwrap());
        let log = vendor_log(folder.path());
        let refused = log.iter().filter(|(_, status)| *status == 429).count();
        assert!(refused > 0, "{report}");
        assert!(fullest_window(&log, 2) <= 16, "{report}");
        let jobs = jobs(folder.path());
        assert!(jobs.iter().all(|job| job.state == State::Done && job.failures == 0), "{report}");
        assert_eq!(jobs.iter().map(|job| job.rate_limited as usize).sum::<usize>(), refused, "{report}");
        check_files(folder.path());
        assert_eq!(of_stage(&jobs, "finish").len(), 8);
    }
}

/// The files of a stopped run are enough to go on: a second run finds all jobs done and makes no call.
#[test]
fn second_run_repeats_no_finished_stage() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--pdfs", "3", "--minute", "2s", "--workers", "rust"];
    for _ in 0..2 {
        let report = report(example(folder.path(), &arguments).spawn().unwrap());
        assert_eq!(numbers(&report, "PDFs "), [3, 3], "{report}");
    }
    assert_eq!(
        vendor_log(folder.path()).len(),
        2 * pdfs(folder.path()).iter().map(|(_, c)| c.len()).sum::<usize>()
    );
}

/// P1, P2, P5: the config has the documents' values.
#[test]
fn config_has_the_documented_values() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tollway.toml");
    let config = ConfigWithPipelines::load(path).unwrap();
    let pipeline = config.pipeline("pdf").unwrap();
    for (stage, queue) in [("autotag", "adobe-autotag-queue"), ("extract", "adobe-extract-queue")] {
        let stage = pipeline.stage(stage).unwrap();
        assert_eq!(stage.queue.as_deref(), Some(queue));
        assert_eq!(stage.take.amounts()["adobe"]["requests"], 1);
        assert_eq!((stage.concurrency, stage.tries), (50, 3));
        assert_eq!(stage.visibility_timeout, tollway::Span::from_mins(15));
        assert_eq!(stage.retention, tollway::Span::from_days(7));
    }
    let finish = pipeline.stage("finish").unwrap();
    assert!(finish.take.amounts().is_empty());
    assert_eq!(finish.after.iter().map(|stage| stage.as_str()).collect::<Vec<_>>(), ["autotag", "extract"]);
}
