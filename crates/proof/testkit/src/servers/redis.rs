//! A Redis server that a test starts.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::log::Log;
use super::ministack::python_tool;
use super::process::{Ending, Launch, Process};
use super::program;
use super::resp;
use super::start::{self, Recipe};

/// The timeout for an answer of a running server on a busy machine.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// The timeout of one probe while a server starts.
const STARTS_WITHIN: Duration = Duration::from_millis(500);

/// A running Redis, by default without persistence.
pub struct RedisServer {
    // Before the folder: the server must end before its folder is removed.
    process: Mutex<Process>,
    program: PathBuf,
    port: u16,
    options: Vec<String>,
    folder: TempDir,
}

impl RedisServer {
    /// Starts one.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with more options, as on its command line: `&["--requirepass", "secret"]`.
    pub fn start_with(options: &[&str]) -> Self {
        Self::start_program(program::find_or_say("redis-server", &[], "redis-server"), options)
    }

    /// Starts a Redis 6.2, which `scripts/install-python-tools` installs: the last one before 7.0.
    pub fn start_6_2() -> Self {
        Self::start_program(python_tool("redis-server"), &[])
    }

    /// A server shared by all tests of this process. Tests must leave it unchanged.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<RedisServer> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    pub(super) fn start_program(program: PathBuf, options: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("redis-").tempdir().expect("a temporary folder");
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let (port, process) = with_recipe(&program, &options, folder.path(), start::anywhere);
        Self { process: Mutex::new(process), program, port, options, folder }
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its URL.
    pub fn url(&self) -> String {
        match password(&self.options) {
            Some(password) => format!("redis://:{password}@{}", self.addr()),
            None => format!("redis://{}", self.addr()),
        }
    }

    /// Its answer to a command, as `redis-cli` prints it: an array has a line for each element, nil is empty, an error
    /// is its text.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    pub fn command(&self, words: &[&str]) -> String {
        resp::ask(self.port, password(&self.options), words, ANSWERS_WITHIN)
            .unwrap_or_else(|error| panic!("Redis did not answer {words:?}: {error}\n{}", self.log()))
    }

    /// Runs a command that must succeed.
    pub(super) fn expect_ok(&self, words: &[&str]) {
        assert_eq!(self.command(words), "OK", "the answer to {words:?}");
    }

    /// Where it keeps its files and runs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        Log::in_folder(self.folder.path()).text_after(0)
    }

    /// Pauses it (SIGSTOP): connections stay open, the kernel accepts new ones, nothing is answered.
    pub fn pause(&self) {
        self.process().pause();
    }

    /// Resumes it.
    pub fn resume(&self) {
        self.process().resume();
    }

    /// Kills it (SIGKILL). Its port refuses until it is restarted.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Saves its data, stops it, and restarts it on its port with its data. A killed server restarts with what it had on
    /// disk.
    pub fn restart(&self) {
        let mut process = self.process();
        if !process.has_ended() {
            process.resume();
            // The reply is the end of the connection.
            let _ = resp::ask(self.port, password(&self.options), &["SHUTDOWN", "SAVE"], ANSWERS_WITHIN);
            process.wait_for_end();
        }
        *process = self.start_again();
    }

    /// Kills it and starts it again on its port, without its data.
    pub fn restart_empty(&self) {
        let mut process = self.process();
        process.kill();
        let folder = self.folder.path();
        let _ = fs::remove_file(folder.join("dump.rdb"));
        let _ = fs::remove_dir_all(folder.join("appendonlydir"));
        *process = self.start_again();
    }

    /// Kills it and starts a Redis 6.2 on its port, without its data.
    pub fn downgrade(&mut self) {
        self.program = python_tool("redis-server");
        self.restart_empty();
    }

    fn start_again(&self) -> Process {
        with_recipe(&self.program, &self.options, self.folder.path(), |recipe| {
            start::again(recipe, self.port)
        })
    }

    /// A panicking test leaves the server usable.
    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn with_recipe<T>(program: &Path, options: &[String], folder: &Path, go: impl FnOnce(&Recipe) -> T) -> T {
    let launch = |port| launch(program, options, folder, port);
    let answers = |port, pid| answers(port, password(options), pid);
    go(&Recipe { folder, launch: &launch, answers: &answers })
}

fn launch(program: &Path, options: &[String], folder: &Path, port: u16) -> Launch {
    // Redis stores config changes at run time here, such as those of sentinels, and reads them after a restart.
    let notes = folder.join("redis.conf");
    File::options().create(true).append(true).open(&notes).expect("a file in a folder of our own");
    let [folder, notes] = [folder, &notes].map(|path| path.to_str().expect("a folder with a readable name"));
    let port = port.to_string();
    let ours =
        [notes, "--port", &port, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "no"];
    let args = ours.iter().map(|&word| word.to_owned()).chain(options.iter().cloned()).collect();
    Launch { program: program.to_owned(), args, user: None, ending: Ending::Kill }
}

/// Whether this process answers and has loaded its data: another process may have taken the port.
fn answers(port: u16, password: Option<&str>, pid: u32) -> bool {
    let ask = |words: &[&str]| resp::ask(port, password, words, STARTS_WITHIN).unwrap_or_default();
    ask(&["PING"]) == "PONG" && ask(&["INFO", "server"]).contains(&format!("process_id:{pid}\r\n"))
}

fn password(options: &[String]) -> Option<&str> {
    let at = options.iter().position(|option| option == "--requirepass")?;
    options.get(at + 1).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Whether a server came up on this port.
    fn starts_on(port: u16) -> bool {
        let program = program::find_or_say("redis-server", &[], "redis-server");
        let folder = tempfile::tempdir().unwrap();
        with_recipe(&program, &[], folder.path(), |recipe| start::attempt(recipe, port)).is_some()
    }

    #[test]
    fn port_taken_by_another_redis_is_detected() {
        let other = RedisServer::start();
        assert!(!starts_on(other.port()));
        let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!starts_on(stranger.local_addr().unwrap().port()));
        assert!(starts_on(super::super::free_port()));
    }
}
