//! Real nginx in front, with the configuration of `examples/nginx`.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tollway_server::Door;

use crate::client::Client;
use crate::running::{LONG, Running, Setup};

/// A running nginx, ended with its value.
struct Nginx {
    process: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Nginx {
    /// With the example's configuration, on free ports and in front of this server.
    fn start(tollway: SocketAddr) -> Self {
        let example = include_str!("../../../../examples/nginx/nginx.conf");
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

    fn client(&self) -> Client {
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
        // Its workers end with it only if it is asked to.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

fn free_port() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

fn tollway(limit: &str) -> Running {
    let example = include_str!("../../../../examples/nginx/tollway.toml");
    let limits = example.lines().find(|line| line.starts_with("limits")).unwrap();
    Setup::of(&example.replace(limits, &format!("limits = [\"{limit}\"]"))).start()
}

/// B10: through nginx, from many connections at once, a limit holds exactly; who is denied is told as 429.
#[test]
fn a_limit_holds_exactly_behind_nginx() {
    let tollway = tollway("50 requests / hour from first call");
    let nginx = Nginx::start(tollway.tcp(Door::Decisions));
    let counts: Vec<(usize, usize)> = std::thread::scope(|scope| {
        let ask = |thread: usize| {
            let mut client = nginx.client();
            let statuses: Vec<u16> = (0..25)
                .map(|call| {
                    // A header of the client's own makes nobody new.
                    let forged = format!("x-forwarded-for: 203.0.{thread}.{call}\r\n");
                    client.get("/", &forged).status
                })
                .collect();
            let count = |status: u16| statuses.iter().filter(|given| **given == status).count();
            (count(200), count(429))
        };
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || ask(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sum = counts.iter().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    assert_eq!(sum, (50, 150));
}

/// B10, C5: headers reach the client, on grants and denials; the application's own 403 stays one; without Tollway, nginx
/// lets nobody through.
#[test]
fn nginx_passes_on_what_was_said() {
    let tollway = tollway("2 requests / hour from first call");
    let nginx = Nginx::start(tollway.tcp(Door::Decisions));
    let mut client = nginx.client();
    let granted = client.get("/", "");
    assert_eq!((granted.status, granted.body.as_str()), (200, "hello\n"));
    assert_eq!(
        (granted.header("x-rate-limit-limit"), granted.header("x-rate-limit-remaining")),
        (Some("2"), Some("1"))
    );
    assert_eq!(client.get("/forbidden", "").body, "the application says no\n");
    let denied = client.get("/", "");
    assert_eq!((denied.status, denied.header("x-rate-limit-remaining")), (429, Some("0")));
    let retry_after: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!((3_500..=3_600).contains(&retry_after), "{retry_after}");
    drop(tollway);
    assert_eq!(nginx.client().get("/", "").status, 500);
}
