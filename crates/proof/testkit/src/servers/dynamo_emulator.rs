//! The DynamoDB emulator as a process: the program of `emulators/dynamodb`, found or built.
//!
//! It is not a dependency, because its own dependencies (SQLite, an HTTP server) would affect versions in production.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// Overrides the program to start.
const PROGRAM: &str = "TOLLWAY_DYNAMODB_EMULATOR";

/// The workspace of the emulator.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../emulators/dynamodb");

/// The name of the program.
const NAME: &str = "tollway-dynamodb-emulator";

/// A running emulator without tables. It ends when its stdin closes, so also when this process is killed.
pub(super) struct DynamoEmulator {
    child: Child,
    addr: SocketAddr,
}

impl DynamoEmulator {
    /// Starts one on a free port.
    pub(super) fn start() -> Self {
        Self::start_program(program())
    }

    fn start_program(program: &Path) -> Self {
        let mut command = Command::new(program);
        // In its own process group: Ctrl-C ends the test first, and then the emulator.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("the DynamoDB emulator {} does not start: {error}", program.display())
        });
        let stdout = child.stdout.take().expect("its stdout is a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("its stdout can be read");
        let port: u16 = line.trim().parse().unwrap_or_else(|_| {
            let _ = child.kill();
            panic!(
                "{} is not a DynamoDB emulator: it must print its port, and printed {line:?}",
                program.display()
            )
        });
        Self { child, addr: (Ipv4Addr::LOCALHOST, port).into() }
    }

    /// Where it listens.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for DynamoEmulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, searched once per test process.
fn program() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| match env::var_os(PROGRAM) {
        Some(program) => program.into(),
        None => {
            let built =
                target_folder(env::var_os("CARGO_TARGET_DIR").map(PathBuf::from)).join("debug").join(NAME);
            if is_current(&built).unwrap_or(false) { built } else { build() }
        }
    })
}

/// Where `cargo build --manifest-path emulators/dynamodb/Cargo.toml`, run at the root of the repository, puts its output.
fn target_folder(chosen: Option<PathBuf>) -> PathBuf {
    let workspace = Path::new(WORKSPACE);
    // A relative folder starts where cargo ran, which the tests cannot know: most likely the root.
    chosen.map_or_else(|| workspace.join("target"), |folder| workspace.join("../..").join(folder))
}

/// Whether the program exists and is newer than its sources.
fn is_current(program: &Path) -> io::Result<bool> {
    let built = fs::metadata(program)?.modified()?;
    for source in ["Cargo.toml", "Cargo.lock", "src/main.rs"] {
        if fs::metadata(Path::new(WORKSPACE).join(source))?.modified()? > built {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Builds it. Concurrent test processes wait for each other at cargo's own lock, and all but the first find it built.
fn build() -> PathBuf {
    let manifest = Path::new(WORKSPACE).join("Cargo.toml");
    assert!(
        manifest.is_file(),
        "there is no {}; set ${PROGRAM} to a program that emulates DynamoDB",
        manifest.display()
    );
    announce(&manifest);
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "--message-format=json-render-diagnostics", "--manifest-path"]);
    // The root, because a relative CARGO_TARGET_DIR starts there.
    command.arg(&manifest).current_dir(Path::new(WORKSPACE).join("../.."));
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output =
        output.unwrap_or_else(|error| panic!("the DynamoDB emulator cannot be built: cargo: {error}"));
    assert!(
        output.status.success(),
        "the DynamoDB emulator cannot be built, see above; to build it alone: \
         cargo build --manifest-path emulators/dynamodb/Cargo.toml"
    );
    let messages = String::from_utf8_lossy(&output.stdout);
    executable(&messages).unwrap_or_else(|| panic!("cargo did not say where it put {NAME}:\n{messages}"))
}

/// To the process's stderr: a test's own is captured, and a build of a minute would look like a hang.
fn announce(manifest: &Path) {
    use io::Write;
    let _ = writeln!(io::stderr(), "building the DynamoDB emulator, once: {}", manifest.display());
}

/// The path of the program, from cargo's messages.
fn executable(messages: &str) -> Option<PathBuf> {
    let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.find_map(|message| {
        (message["target"]["name"] == NAME).then(|| message["executable"].as_str().map(PathBuf::from))?
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;
    use crate::servers::poll_until::{START_TIMEOUT, until};

    #[test]
    fn emulator_ends_when_its_stdin_closes() {
        let mut emulator = DynamoEmulator::start();
        assert!(TcpStream::connect(emulator.addr()).is_ok());
        drop(emulator.child.stdin.take());
        let ended = until(START_TIMEOUT, || emulator.child.try_wait().expect("a child of this process"));
        assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    }

    #[test]
    fn dropped_emulator_is_gone() {
        let emulator = DynamoEmulator::start();
        let addr = emulator.addr();
        drop(emulator);
        assert!(TcpStream::connect(addr).is_err());
    }

    #[test]
    #[should_panic(expected = "/bin/true is not a DynamoDB emulator")]
    fn program_that_prints_no_port_is_refused() {
        DynamoEmulator::start_program(Path::new("/bin/true"));
    }

    #[test]
    #[should_panic(expected = "the DynamoDB emulator /nowhere/emulator does not start")]
    fn missing_program_is_a_failure() {
        DynamoEmulator::start_program(Path::new("/nowhere/emulator"));
    }

    #[test]
    fn target_folder_follows_cargo() {
        let workspace = Path::new(WORKSPACE);
        assert_eq!(target_folder(None), workspace.join("target"));
        assert_eq!(target_folder(Some("/builds".into())), Path::new("/builds"));
        assert_eq!(target_folder(Some("out".into())), workspace.join("../../out"));
    }

    #[test]
    fn executable_is_read_from_cargos_messages() {
        let messages = format!(
            "{{\"target\":{{\"name\":\"tokio\"}},\"executable\":null}}\n\
             {{\"target\":{{\"name\":\"{NAME}\"}},\"executable\":\"/builds/debug/{NAME}\"}}\n"
        );
        assert_eq!(executable(&messages), Some(Path::new("/builds/debug").join(NAME)));
        assert_eq!(executable("not json"), None);
    }
}
