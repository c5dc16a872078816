//! Ends a server whose test process ended first.
//!
//! Statics are not dropped, and a killed process drops nothing. But the system always closes its files: a shell waits at the
//! other end of a pipe, and ends the server when the pipe closes.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Each line replaces the list of processes to end. A stopped process must be resumed to receive the signal.
const SCRIPT: &str = r#"
while read -r line; do pids=$line; done
if [ -n "$pids" ]; then
    kill -s "$1" $pids
    kill -s CONT $pids
fi
tries=0
for pid in $pids; do
    while kill -s 0 "$pid" && [ $tries -lt 100 ]; do sleep 0.05; tries=$((tries + 1)); done
    [ $tries -lt 100 ] || kill -s KILL "$pid"
done
rm -rf -- "$2"
"#;

/// A shell that waits for this process to end.
pub(super) struct Watcher(Child);

impl Watcher {
    /// A watcher that ends the watched processes with this signal, and removes the folder.
    pub(super) fn new(signal: &str, folder: &Path) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "watcher", signal]).arg(folder);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Its own process group, so that Ctrl-C and signals to the test's group do not reach it.
        shell.process_group(0).current_dir("/");
        Self(shell.spawn().expect("a shell to watch over the server"))
    }

    /// Sets the processes to end.
    pub(super) fn watch(&mut self, pids: &[u32]) {
        let line = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let pipe = self.0.stdin.as_mut().expect("the pipe is open as long as the watcher lives");
        writeln!(pipe, "{line}").expect("the watcher reads");
    }
}

impl Drop for Watcher {
    /// The server has ended. Its pid may be reused, so the watcher must not signal it.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
