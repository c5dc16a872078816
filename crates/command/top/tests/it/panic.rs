//! A panic gives the terminal back before it says anything; in a real terminal, provided by tmux.
#![allow(clippy::disallowed_methods, reason = "a test waits by the clock of the machine")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tollway_core::{Clock, Timestamp};
use tollway_top::{Event, Palette, Update, run};

use crate::snapshots::{AT, busy};

/// Set in the process that panics.
const PANICS: &str = "TOLLWAY_TOP_PANICS";

/// A clock that fails after a while of drawing.
#[derive(Default)]
struct FailingClock(AtomicU64);

impl Clock for FailingClock {
    fn now(&self) -> Timestamp {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) < 5, "the clock has failed");
        Timestamp::from_millis(AT)
    }
}

/// Does nothing by itself: the next test runs it in a terminal.
#[test]
fn drawing_panics() {
    if std::env::var_os(PANICS).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (sender, updates) = mpsc::channel(4);
        sender.send(Update::Event(Event::Snapshot(Box::new(busy())))).await.unwrap();
        run(updates, Palette::COLOURED, Arc::new(FailingClock::default())).await.unwrap();
    });
}

#[test]
fn a_panic_gives_the_terminal_back() {
    let folder = std::env::temp_dir().join(format!("tollway-top-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("tmux").display().to_string();
    let tmux = |arguments: &[&str]| {
        let output = Command::new("tmux").args(["-f", "/dev/null", "-S", &socket]).args(arguments).output();
        let output = output.unwrap_or_else(|error| panic!("tmux is needed (apt-get install tmux): {error}"));
        String::from_utf8(output.stdout).unwrap()
    };
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "echo before; RUST_BACKTRACE=0 {PANICS}=1 {} panic::drawing_panics --exact --nocapture; \
         stty -a | tr -d ';' | tr ' ' '\\n' | grep -x -e icanon -e echo; echo over",
        program.display()
    );
    tmux(&["new-session", "-d", "-x", "100", "-y", "30", "PS1='$ ' sh"]);
    tmux(&["send-keys", &script, "Enter"]);
    let begun = Instant::now();
    let screen = loop {
        let screen = tmux(&["capture-pane", "-p"]);
        let has = |line: &str| screen.lines().any(|found| found.trim_end() == line);
        if has("over") || begun.elapsed() > Duration::from_secs(60) {
            break screen;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    tmux(&["kill-server"]);
    let _ = std::fs::remove_dir_all(&folder);
    // A slow shell prompts after the script was typed.
    let has = |line: &str| screen.lines().any(|found| found.trim_end().trim_start_matches("$ ") == line);
    assert!(has("before") && has("icanon") && has("echo") && has("over"), "{screen}");
    assert!(screen.contains("the clock has failed") && !screen.contains("q quit"), "{screen}");
}
