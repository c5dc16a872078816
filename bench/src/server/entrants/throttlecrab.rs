//! throttlecrab's published server, with its defaults and all protocols.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::process::Process;

const PROGRAM: &str = "throttlecrab-server";
const VERSION: &str = "0.4.40";
/// Its path, if it is neither in PATH nor in cargo's bin folder.
const PLACE: &str = "THROTTLECRAB_SERVER";

pub(in crate::server) struct Throttlecrab {
    process: Process,
    pub(in crate::server) http: u16,
    pub(in crate::server) grpc: u16,
    pub(in crate::server) resp: u16,
}

impl Throttlecrab {
    pub(in crate::server) fn start() -> Result<Self> {
        let program = find()?;
        let [http, grpc, resp] = free_ports()?;
        let mut arguments = vec!["--log-level=warn".to_owned()];
        for (protocol, port) in [("http", http), ("grpc", grpc), ("redis", resp)] {
            let host = Ipv4Addr::LOCALHOST;
            arguments.push(format!("--{protocol}"));
            arguments.extend([format!("--{protocol}-host={host}"), format!("--{protocol}-port={port}")]);
        }
        let mut process = Process::start(&program, &arguments)?;
        for port in [http, grpc, resp] {
            process.wait_for(port).context(PROGRAM)?;
        }
        Ok(Self { process, http, grpc, resp })
    }

    pub(in crate::server) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

fn find() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cargo = std::env::home_dir().map(|home| home.join(".cargo/bin"));
    let folders = std::env::split_paths(&path).chain(cargo);
    let named = std::env::var_os(PLACE).map(PathBuf::from);
    let program =
        named.into_iter().chain(folders.map(|folder| folder.join(PROGRAM))).find(|file| file.is_file());
    let program = program.with_context(|| {
        format!("{PROGRAM} is not installed; cargo install {PROGRAM} --version {VERSION} (needs protoc), or name it in ${PLACE}")
    })?;
    let said =
        Command::new(&program).arg("--version").output().with_context(|| program.display().to_string())?;
    let said = String::from_utf8_lossy(&said.stdout);
    let version = said.split_whitespace().last().unwrap_or_default();
    ensure!(
        version == VERSION,
        "{} is version {version}; cargo install {PROGRAM} --version {VERSION}",
        program.display()
    );
    Ok(program)
}

/// Bound at the same time, so that the ports differ.
fn free_ports() -> Result<[u16; 3]> {
    let bind = |()| -> Result<_> { Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?) };
    let listeners = [bind(())?, bind(())?, bind(())?];
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}
