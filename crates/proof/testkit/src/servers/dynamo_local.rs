//! Amazon's own DynamoDB Local, as a second opinion: slower than the emulator.

use std::env;
use std::io::{self, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::process::{Ending, Launch, Process};
use super::program;
use super::start::{self, Recipe};
use crate::http::Message;

/// The folder of `DynamoDBLocal.jar`; if it is set, tests use DynamoDB Local.
const FOLDER: &str = "TOLLWAY_DYNAMODB_LOCAL";

/// The timeout of one probe while the server starts.
const STARTS_WITHIN: Duration = Duration::from_millis(500);

/// Several may run at once, and Java takes a quarter of the memory for each by default.
const MEMORY: &str = "-Xmx512m";

/// A running DynamoDB Local that keeps nothing on disk. It has no option to listen on loopback only.
pub(super) struct DynamoLocal {
    // Before the folder: the server must end before its folder is removed.
    _process: Process,
    _folder: TempDir,
    port: u16,
}

impl DynamoLocal {
    /// Starts one, if the environment says so.
    pub(super) fn if_wanted() -> Option<Self> {
        env::var_os(FOLDER).map(|folder| Self::start(&PathBuf::from(folder).join("DynamoDBLocal.jar")))
    }

    fn start(jar: &Path) -> Self {
        assert!(
            jar.is_file(),
            "${FOLDER} has no {}; scripts/conform-on-dynamodb-local installs it",
            jar.display()
        );
        let java = program::find_or_say("java", &[], "default-jre-headless");
        let folder = tempfile::Builder::new().prefix("dynamodb-").tempdir().expect("a temporary folder");
        let mark = mark();
        let launch = |port| launch(&java, jar, &mark, port);
        let answers = |port, _| is_marked(port, &mark).unwrap_or(false);
        let recipe = Recipe { folder: folder.path(), launch: &launch, answers: &answers };
        let (port, process) = start::anywhere(&recipe);
        Self { _process: process, _folder: folder, port }
    }

    /// Where it listens.
    pub(super) fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

/// A mark that identifies one start: another process may have taken its port.
fn mark() -> String {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    format!("tollway-{}-{}", process::id(), STARTED.fetch_add(1, Ordering::Relaxed))
}

fn launch(java: &Path, jar: &Path, mark: &str, port: u16) -> Launch {
    let jar = jar.to_str().expect("a folder with a readable name");
    let port = port.to_string();
    // Without `-sharedDb` each region and access key has tables of its own.
    let words =
        [MEMORY, "-jar", jar, "-inMemory", "-sharedDb", "-disableTelemetry", "-cors", mark, "-port", &port];
    let args = words.map(str::to_owned).into();
    Launch { program: java.to_owned(), args, user: None, ending: Ending::Kill }
}

/// Whether the server on this port was started with this mark: it returns it as an allowed origin.
fn is_marked(port: u16, mark: &str) -> io::Result<bool> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(STARTS_WITHIN))?;
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: {mark}\r\nConnection: close\r\n\r\n");
    Message { head, body: Vec::new() }.write(&stream)?;
    let reply = Message::read(&mut BufReader::new(&stream))?;
    Ok(reply.header("access-control-allow-origin") == Some(mark))
}
