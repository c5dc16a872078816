//! Questions and progress on a real terminal.

use tollway_pipeline::State;

use super::lab::{Lab, job};
use crate::pipeline_run::{self, Run};
use crate::terminal::{Terminal, is_over, tollway};

#[test]
fn drop_asks_on_a_terminal() {
    let lab = Lab::new();
    lab.jobs().kill(job("autotag", "1"), "autotag", "x", "");
    let drop = format!("{} pipeline dead drop --all; echo exit $?", tollway());
    let terminal = Terminal::new(&lab.home, &drop);
    terminal.until(|screen| screen.contains("drop 1 dead letter? [y/N]"));
    terminal.keys("Enter");
    terminal.until(|screen| screen.contains("nothing was changed") && screen.contains("exit 1"));
    assert_eq!(lab.jobs().in_state(State::Dead).len(), 1);
    let terminal = Terminal::new(&lab.home, &drop);
    terminal.until(|screen| screen.contains("drop 1 dead letter? [y/N]"));
    // While it asks, other commands are not kept waiting.
    assert_eq!(lab.jobs().in_state(State::Dead).len(), 1);
    terminal.keys("y");
    terminal.keys("Enter");
    terminal.until(|screen| screen.contains("dropped 1 dead letter") && screen.contains("exit 0"));
}

/// A job must not send escape sequences to the terminal.
#[test]
fn texts_of_jobs_are_harmless_on_a_terminal() {
    let lab = Lab::new();
    let evil = "\u{1b}[31mred\u{1b}[0m\u{7}";
    lab.jobs().kill(job("autotag", "k"), "autotag", evil, evil);
    let script = format!(
        "for c in 'dead list' 'dead show 1' 'why 1' 'dead list --group-by error'; do {} pipeline $c; done; echo over",
        tollway()
    );
    let terminal = Terminal::new(&lab.home, &script);
    let screen = terminal.until(is_over);
    assert!(screen.contains("[31mred") && !screen.contains("\u{1b}[31mred"), "{screen}");
}

/// P8: with bars and percent, drawn again until Ctrl-C; the figures stay.
#[test]
fn status_is_watched_on_a_terminal() {
    let lab = Lab::new();
    let jobs = lab.running();
    jobs.add((0..4).map(|n| job("autotag", &n.to_string())).collect());
    let watch = format!("{} pipeline status --watch; echo exit $?", tollway());
    let terminal = Terminal::new(&lab.home, &watch);
    terminal.until(|screen| {
        screen.contains("autotag") && screen.contains("12 attempts left") && screen.contains("0 %")
    });
    jobs.complete("autotag", &[], None);
    jobs.complete("autotag", &[], None);
    terminal.until(|screen| screen.contains("50 %") && screen.contains("█"));
    terminal.keys("C-c");
    terminal.until(|screen| screen.contains("exit 0"));
}

/// P8: beside the process that runs the pipeline, how long its calls took and why a stage waits for its handler.
#[test]
fn status_beside_a_running_pipeline_has_call_times_and_the_reason_of_a_wait() {
    let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stage = |name: &str, handler: &str| {
        format!(
            "[[pipelines.pdf.stages]]\nname = '{name}'\ntake = {{ adobe = {{ requests = 1 }} }}\nhandler = {{ {handler} }}\n"
        )
    };
    let config = format!(
        "[store]\nurl = 'file:state'\n[policies.adobe]\nlimits = ['100k requests / minute']\n\
         [pipelines.pdf]\nengine = 'sqlite:pdf.db'\n{}{}",
        stage("autotag", "command = ['python3', 'worker.py']"),
        stage("extract", &format!("http = 'http://{away}/job'")),
    );
    let home = pipeline_run::home(&config);
    pipeline_run::jobs(&home, 0..3, "");
    pipeline_run::enqueue(&home);
    let run = Run::start(&home, &["--stay"]);
    let waits = |answer: &serde_json::Value| {
        answer["stages"][1]["handler_unreachable"]["error"].as_str().map(str::to_owned)
    };
    let reason = loop {
        if let Some(reason) = waits(&pipeline_run::status(&home)) {
            break reason;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert!(reason.contains("Connection refused"), "{reason}");
    let terminal = Terminal::new(&home, &format!("{} pipeline status --watch", tollway()));
    terminal.until(|screen| {
        screen.contains("extract waits for its handler")
            && screen.contains("refused")
            && screen.contains("(max ")
    });
    run.signal("-TERM");
    run.end();
}
