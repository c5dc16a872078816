//! A running nginx; dropping it stops it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::client::Client;
use crate::running::LONG;

/// A running nginx.
pub(crate) struct Nginx {
    process: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Nginx {
    /// With an example's configuration, on free ports and in front of this server.
    pub(crate) fn start(example: &str, tollway: SocketAddr) -> Self {
        let [front, application] = [(); 2].map(|()| free_port());
        let moved = [("127.0.0.1:8080", tollway), ("127.0.0.1:8000", front), ("127.0.0.1:8001", application)];
        let config = moved.iter().fold(example.to_owned(), |config, (from, to)| {
            assert!(config.contains(from), "the example has no {from}");
            config.replace(from, &to.to_string())
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("nginx.conf"), config).unwrap();
        let process = spawn(folder.path());
        let nginx = Self { process, address: front, _folder: folder };
        let begun = Instant::now();
        while TcpStream::connect(front).is_err() {
            assert!(begun.elapsed() < LONG, "nginx does not listen");
            std::thread::yield_now();
        }
        nginx
    }

    pub(crate) fn client(&self) -> Client {
        Client::tcp(self.address)
    }
}

fn spawn(folder: &Path) -> Child {
    let own_files = "daemon off; pid nginx.pid;";
    let mut nginx = Command::new("nginx");
    nginx.args(["-e", "stderr", "-c", "nginx.conf", "-g", own_files, "-p"]).arg(folder);
    nginx.env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()));
    let spawned = nginx.stdout(Stdio::null()).spawn();
    spawned.unwrap_or_else(|error| {
        panic!("this test needs nginx; install it: apt-get install nginx-light: {error}")
    })
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM, because SIGKILL would leave its workers running.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

fn free_port() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}
