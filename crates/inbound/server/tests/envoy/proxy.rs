//! A running Envoy; dropping it stops it.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::Instant;

use tempfile::TempDir;
use tollway_testkit::servers::python_tool;

use crate::client::Client;
use crate::running::LONG;

pub(crate) struct Envoy {
    process: Child,
    address: SocketAddr,
    folder: TempDir,
}

impl Envoy {
    /// Starts Envoy with the example's configuration and these changes, in front of this service, asking this Tollway.
    pub(crate) fn start(tollway: SocketAddr, service: SocketAddr, changes: &[(&str, &str)]) -> Self {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let ports = [("10000", address), ("8081", tollway), ("8000", service)];
        let ports =
            ports.map(|(from, to)| (format!("port_value: {from} "), format!("port_value: {} ", to.port())));
        let ports = ports.iter().map(|(from, to)| (from.as_str(), to.as_str()));
        let example = include_str!("../../../../../examples/envoy/envoy.yaml");
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("envoy.yaml");
        fs::write(&config, changed(example, changes.iter().copied().chain(ports))).unwrap();
        let mut command = Command::new(python_tool("envoy"));
        command
            .args(["--disable-hot-restart", "--concurrency", "2", "--log-level", "error", "-c"])
            .arg(&config);
        command.stdout(File::create(folder.path().join("log")).unwrap());
        let envoy = Self { process: command.spawn().unwrap(), address, folder };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < LONG, "Envoy does not listen");
            std::thread::yield_now();
        }
        envoy
    }

    /// A connection to it.
    pub(crate) fn client(&self) -> Client {
        Client::tcp(self.address)
    }

    /// Stops it and returns its log.
    pub(crate) fn ended(mut self) -> String {
        self.end();
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn end(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = Command::new("kill").arg(self.process.id().to_string()).status();
            let _ = self.process.wait();
        }
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        self.end();
    }
}

/// A text with replacements; each must match.
pub(crate) fn changed<'a>(text: &str, changes: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    changes.into_iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the example has no {from:?}");
        text.replace(from, to)
    })
}
