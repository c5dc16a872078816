//! An AWS emulator that a test starts: ministack, with Systems Manager, DynamoDB and SQS.

use std::env;
use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::process::{Ending, Launch, Process};
use super::start::{self, Recipe};
use crate::http::Message;

/// The timeout of one probe while the server starts.
const STARTS_WITHIN: Duration = Duration::from_millis(500);

/// The health endpoint; its body is a few kilobytes.
const HEALTH: &str = "GET /_ministack/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Starts ministack with a clock for its queues that the test sets: the text of a file, in seconds.
const WITH_CLOCK: &str = r#"
import os, time
import ministack.services.sqs as sqs

class Clock:
    def __getattr__(self, name):
        return getattr(time, name)

    @staticmethod
    def time():
        try:
            with open(os.environ["TOLLWAY_QUEUE_CLOCK"]) as file:
                return float(file.read())
        except (OSError, ValueError):
            return time.time()

sqs.time = Clock()
from ministack.app import main
main()
"#;

/// The file that the clock is read from.
const CLOCK: &str = "clock";

/// A running ministack that keeps nothing on disk. `scripts/install-python-tools` installs it.
pub struct Ministack {
    // Before the folder: the server must end before its folder is removed.
    process: Mutex<Process>,
    port: u16,
    folder: TempDir,
}

/// The clock of a server's queues: messages become visible and expire by it. Until it is set, they follow the machine's.
#[derive(Clone, Debug)]
pub struct QueueClock {
    file: PathBuf,
}

impl QueueClock {
    /// Sets it, in seconds since 1970. It stands still until it is set again.
    pub fn set(&self, seconds: f64) {
        let new = self.file.with_extension("new");
        fs::write(&new, seconds.to_string()).expect("a file in the server's folder");
        fs::rename(new, &self.file).expect("a file in the server's folder");
    }
}

impl Ministack {
    /// Starts one.
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("ministack-").tempdir().expect("a temporary folder");
        let (port, process) = with_recipe(&folder, start::anywhere);
        Self { process: Mutex::new(process), port, folder }
    }

    /// The clock of its queues.
    pub fn queue_clock(&self) -> QueueClock {
        QueueClock { file: self.folder.path().join(CLOCK) }
    }

    /// A server shared by all tests of this process. Tests must leave it unchanged.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Ministack> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The endpoint for AWS clients.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// Sends any request, as another program does: `AmazonSQS.SendMessage`.
    pub fn ask(&self, target: &str, request: &Value) -> Value {
        ask(self.addr(), target, request)
            .expect("it takes requests")
            .unwrap_or_else(|said| panic!("{target}: {said}"))
    }

    /// Pauses it: connections stay open, the kernel accepts new ones, nothing is answered.
    pub fn pause(&self) {
        self.process().pause();
    }

    /// Resumes it.
    pub fn resume(&self) {
        self.process().resume();
    }

    /// Kills it. Its port refuses until it is restarted.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Kills it and starts it again on its port, without its data.
    pub fn restart_empty(&self) {
        let mut process = self.process();
        process.kill();
        *process = with_recipe(&self.folder, |recipe| start::again(recipe, self.port));
    }

    /// A panicking test leaves the server usable.
    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a request to an emulator, or to a proxy in front of it. Its answer, or the error that it answers with.
pub(super) fn ask(to: SocketAddr, target: &str, request: &Value) -> io::Result<Result<Value, String>> {
    let body = request.to_string().into_bytes();
    let head = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-amz-json-1.0\r\n\
         x-amz-target: {target}\r\nx-amz-date: 20260101T000000Z\r\n\
         authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/x/aws4_request, SignedHeaders=host, \
         Signature=x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let stream = TcpStream::connect(to)?;
    Message { head, body }.write(&stream)?;
    let reply = Message::read(&mut BufReader::new(&stream))?;
    let said = String::from_utf8_lossy(&reply.body).into_owned();
    match reply.head.starts_with("HTTP/1.1 200") {
        true => Ok(Ok(serde_json::from_str(&said).unwrap_or(Value::Null))),
        false => Ok(Err(said)),
    }
}

/// A program or interpreter that `scripts/install-python-tools` installs, by its name.
///
/// # Panics
///
/// If it is not there: a test without it has not passed.
pub fn python_tool(name: &str) -> PathBuf {
    let cache =
        env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| !folder.as_os_str().is_empty());
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let program = cache.map(|cache| cache.join("tollway/python/bin").join(name));
    program.filter(|program| program.is_file()).unwrap_or_else(|| {
        panic!("this test needs the program {name} of Python; install it: scripts/install-python-tools")
    })
}

/// Each start has its own mark, which its answers contain: another process may have taken the port.
fn with_recipe<T>(folder: &TempDir, go: impl FnOnce(&Recipe) -> T) -> T {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let mark = format!("tollway-{}-{}", process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
    let program = python_tool("python3");
    let clock = folder.path().join(CLOCK);
    let launch = |port: u16| Launch {
        program: "/usr/bin/env".into(),
        args: vec![
            "BIND_HOST=127.0.0.1".to_owned(),
            format!("GATEWAY_PORT={port}"),
            format!("MINISTACK_EDITION={mark}"),
            format!("TOLLWAY_QUEUE_CLOCK={}", clock.to_str().expect("a folder with a readable name")),
            program.to_str().expect("a folder with a readable name").to_owned(),
            "-c".to_owned(),
            WITH_CLOCK.to_owned(),
        ],
        user: None,
        ending: Ending::Kill,
    };
    let answers = |port, _| health(port).is_ok_and(|said| said.contains(&mark));
    go(&Recipe { folder: folder.path(), launch: &launch, answers: &answers })
}

fn health(port: u16) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(STARTS_WITHIN))?;
    stream.write_all(HEALTH.as_bytes())?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ministack_responds_and_ends_when_killed() {
        let server = Ministack::start();
        assert!(health(server.port).unwrap().contains("\"ssm\": \"available\""));
        server.kill();
        assert!(health(server.port).is_err());
        server.restart_empty();
        assert!(health(server.port).is_ok());
    }
}
