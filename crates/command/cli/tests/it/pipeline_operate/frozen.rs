//! Commands beside a process that has the jobs and does not answer, and signals while an engine does not.

use std::net::TcpListener;
use std::process::Child;

use super::lab::{Lab, UNGATED, job, signal, until};

/// A process that was suspended. It goes on, and ends, when this is dropped: also when a test fails.
struct Suspended(Child);

impl Suspended {
    fn goes_on(&self) {
        signal(&self.0, "CONT");
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The exit code of a process that ends soon.
fn exit_code(child: &mut Child) -> Option<i32> {
    let mut ended = None;
    until("it ends", || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    ended.unwrap().code()
}

/// P8: `status`, `why` and lists read the file; what changes it names the process; a second `run` names it at once.
#[test]
fn commands_answer_beside_a_suspended_owner() {
    let lab = Lab::with_config(&UNGATED.replace("[\"cat\"]", "[\"sleep\", \"1000\"]"));
    lab.home.write("jobs.jsonl", "{\"key\": \"k1\"}\n{\"key\": \"k2\"}\n");
    lab.ok(&["enqueue", "jobs.jsonl"]);
    let stderr = lab.home.path().join("stderr");
    let owner = Suspended(lab.spawn(&["run", "--stay"], &stderr));
    until("a job runs", || lab.json(&["status"])["stages"][0]["running"] != 0);
    signal(&owner.0, "STOP");
    let process = format!("process {}", owner.0.id());

    for (command, says) in
        [(&["status"][..], "autotag"), (&["why", "k1"], "k1"), (&["dead", "list"], "no dead")]
    {
        let (exit, stdout, stderr) = lab.run(command);
        assert_eq!(exit, 0, "{command:?}: {stderr}");
        assert!(stderr.contains(&process) && stderr.contains("kill -CONT"), "{command:?}: {stderr}");
        assert!(format!("{stdout}{stderr}").contains(says), "{command:?}: {stdout}{stderr}");
    }
    for command in [&["pause"][..], &["enqueue", "jobs.jsonl"], &["cancel", "--all", "--yes"], &["drain"]] {
        let (exit, stdout, stderr) = lab.run(command);
        assert_eq!(exit, 69, "{command:?}: {stdout}{stderr}");
        assert!(stderr.contains(&process) && stderr.contains("kill -KILL"), "{command:?}: {stderr}");
    }
    let second = lab.home.path().join("second");
    let mut run = lab.spawn(&["run"], &second);
    assert_eq!(exit_code(&mut run), Some(75));
    let said = std::fs::read_to_string(second).unwrap();
    assert!(said.contains(&format!("belongs to {process}")), "{said}");

    owner.goes_on();
    until("the owner answers again", || lab.run(&["pause"]).0 == 0);
}

/// P8: a command that was suspended has the file, too, and serves no socket.
#[test]
fn commands_answer_beside_a_suspended_command() {
    let lab = Lab::with_config(UNGATED);
    let jobs = lab.jobs();
    jobs.add(vec![job("autotag", "k1")]);
    // This process is like a command: it owns the file, and answers none.
    let (exit, stdout, stderr) = lab.run(&["status"]);
    assert_eq!(exit, 0, "{stderr}");
    assert!(stdout.contains("autotag") && stderr.contains("waiting for"), "{stdout}{stderr}");
    assert!(stderr.contains(&format!("process {}", std::process::id())), "{stderr}");
    drop(jobs);
}

/// P8: SIGTERM ends `run` from the first moment, while its engine takes connections and does not answer.
#[test]
fn run_stops_at_a_signal_while_its_engine_does_not_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let mut engines = Vec::new();
    if cfg!(feature = "postgres") {
        engines.push(format!("postgres://u:p@{address}/jobs"));
    }
    if cfg!(feature = "aws") {
        engines.push(format!("sqs:?ledger=jobs&endpoint=http://{address}&access=test:test"));
    }
    for engine in engines {
        let lab = Lab::with_config(&UNGATED.replace("sqlite:pdf.db", &engine));
        let stderr = lab.home.path().join("stderr");
        let mut run = lab.spawn(&["run"], &stderr);
        let _connection = silent.accept().unwrap();
        signal(&run, "TERM");
        let (exit, said) = (exit_code(&mut run), std::fs::read_to_string(stderr).unwrap());
        assert_eq!(exit, Some(75), "{engine}: {said}");
        assert!(said.contains("stopped before any job was claimed"), "{engine}: {said}");
    }
}
