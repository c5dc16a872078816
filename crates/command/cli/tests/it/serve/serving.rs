//! A running `tollway serve` for tests.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::home::Home;

/// A generous timeout for anything that should happen.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A running `tollway serve`, killed when dropped.
pub(crate) struct Serving {
    process: Child,
    pub(crate) lines: Vec<String>,
    more: Lines<BufReader<ChildStdout>>,
    log: Arc<Mutex<String>>,
    logging: Option<JoinHandle<()>>,
}

impl Serving {
    /// Starts it, and reads its output up to the commands to try.
    pub(crate) fn start(home: &Home, arguments: &[&str]) -> Self {
        Self::start_with(home, arguments, &[])
    }

    /// The same, with these variables.
    pub(crate) fn start_with(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let command = Command::new(env!("CARGO_BIN_EXE_tollway"));
        Self::start_command(command, home, arguments, variables)
    }

    /// The same with so many file descriptors.
    pub(crate) fn start_with_descriptors(home: &Home, arguments: &[&str], descriptors: u32) -> Self {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_tollway")]);
        Self::start_command(shell, home, arguments, &[])
    }

    fn start_command(
        mut command: Command,
        home: &Home,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        command.current_dir(home.path()).env("HOME", home.path()).env_remove("XDG_STATE_HOME");
        command.env_remove("TOLLWAY_CONFIG").env_remove("TOLLWAY_LOG_LEVEL");
        command.envs(variables.iter().copied()).arg("serve").args(arguments);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let logging = keep_log(BufReader::new(process.stderr.take().unwrap()), Arc::clone(&log));
        let mut more = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut lines = Vec::new();
        for line in more.by_ref().map(Result::unwrap) {
            let last = line.starts_with("try ");
            lines.push(line);
            if last {
                break;
            }
        }
        Self { process, lines, more, log, logging: Some(logging) }
    }

    /// The next line of output.
    pub(crate) fn next_line(&mut self) -> String {
        self.more.next().unwrap().unwrap()
    }

    pub(crate) fn line(&self, beginning: &str) -> &str {
        let line = self.lines.iter().find(|line| line.starts_with(beginning));
        line.unwrap_or_else(|| panic!("no line begins with {beginning:?}: {:?}", self.lines))
    }

    /// The printed address of a listener.
    pub(crate) fn address(&self, what: &str) -> String {
        let (_, address) = self.line(what).split_once("://").unwrap();
        address.to_owned()
    }

    /// The whole response of this listener. Each header line ends with CRLF.
    pub(crate) fn ask(&self, door: &str, request: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address(door)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}"
        );
        write!(stream, "{head}\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The status of one take.
    pub(crate) fn take(&self, policy: &str) -> u16 {
        let body = format!("{{\"policy\":\"{policy}\"}}");
        status(&self.ask("decisions", "POST /v1/take", "", &body))
    }

    pub(crate) fn until(&self, policy: &str, status: u16) {
        wait_until(&format!("a take under {policy} is answered with {status}"), || {
            self.take(policy) == status
        });
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until it has logged this.
    pub(crate) fn until_logged(&self, words: &str) {
        wait_until(&format!("{words:?} is logged"), || self.log().contains(words));
    }

    /// Stops it; returns its exit code and its whole log.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        self.signal("-TERM");
        let code = self.process.wait().unwrap().code();
        self.logging.take().unwrap().join().unwrap();
        (code, self.log())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn keep_log(stderr: impl BufRead + Send + 'static, log: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in stderr.lines().map(Result::unwrap) {
            *log.lock().unwrap() += &format!("{line}\n");
        }
    })
}

/// The status of a response.
pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Waits until the condition holds.
pub(crate) fn wait_until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < LONG, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
