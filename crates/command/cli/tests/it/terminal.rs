//! Behaviour on a real terminal, provided by tmux.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use std::process::Command;
use std::time::{Duration, Instant};

use crate::home::Home;

/// A terminal, closed when dropped.
pub(super) struct Terminal {
    socket: String,
}

impl Terminal {
    /// Types the script into a shell in the home folder.
    pub(super) fn new(home: &Home, script: &str) -> Self {
        let socket = home.path().join("tmux").display().to_string();
        let shell = format!("PS1='$ ' HOME={0} sh", home.path().display());
        let folder = home.path().display().to_string();
        let terminal = Self { socket };
        terminal.tmux(&["new-session", "-d", "-x", "100", "-y", "30", "-c", &folder, &shell]);
        terminal.tmux(&["send-keys", script, "Enter"]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output =
            Command::new("tmux").args(["-f", "/dev/null", "-S", &self.socket]).args(arguments).output();
        let output = output.unwrap_or_else(|error| panic!("tmux is needed (apt-get install tmux): {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes it this large.
    pub(super) fn resize(&self, width: u16, height: u16) {
        self.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    pub(super) fn keys(&self, keys: &str) {
        self.tmux(&["send-keys", keys]);
    }

    /// Waits, with a generous timeout, until the screen matches.
    pub(super) fn until(&self, wanted: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p", "-e"]);
            if wanted(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "never shown: {screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-S", &self.socket, "kill-server"]).output();
    }
}

/// Whether the shell has printed `over`, the last command of the script.
pub(super) fn is_over(screen: &str) -> bool {
    screen.lines().any(|line| line.ends_with("over") && !line.contains("echo"))
}

pub(super) fn tollway() -> &'static str {
    env!("CARGO_BIN_EXE_tollway")
}

#[test]
fn waiting_take_shows_its_limit_and_can_be_interrupted() {
    let home =
        Home::with_config("policies.adobe.limits = ['1 request / day']\npolicies.adobe.max_wait = '1d'");
    assert_eq!(home.run(&["take", "adobe", "-q"]).0, 0);
    let terminal = Terminal::new(&home, &format!("{} take adobe; echo exit $?", tollway()));
    terminal.until(|screen| screen.contains("waiting for requests_per_day of adobe until "));
    terminal.keys("C-c");
    terminal.until(|screen| screen.contains("the booking was cancelled") && screen.contains("exit 130"));
}

#[test]
fn terminal_has_colours_unless_no_color_is_set() {
    let home = Home::with_config("policies.adobe.limits = ['5 / day']");
    home.run(&["take", "adobe", "-q"]);
    let terminal = Terminal::new(&home, &format!("{} usage; echo over", tollway()));
    let screen = terminal.until(is_over);
    assert!(screen.contains("\x1b[32m████"), "{screen}");
    let terminal = Terminal::new(&home, &format!("NO_COLOR=1 {} usage; echo over", tollway()));
    let screen = terminal.until(is_over);
    assert!(screen.contains("████") && !screen.contains("\x1b[32m"), "{screen}");
}
