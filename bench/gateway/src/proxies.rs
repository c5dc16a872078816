//! The proxies, each a process: how it is started, and what it has used.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// The unit of CPU time in `/proc`, the same on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A proxy that runs, killed when dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    process: Child,
    _folder: TempDir,
}

impl Proxy {
    /// `tollway gateway` of the folder that this program is in, with limits that no call reaches.
    pub(crate) fn gateway(vendor: SocketAddr) -> Self {
        let program = std::env::current_exe().unwrap().with_file_name("tollway");
        assert!(program.is_file(), "build it first: cargo build --profile dist -p tollway-cli");
        let config = format!(
            "[apis.vendor]\nbase_url = \"http://{vendor}/v1\"\nrate = \"off\"\nlimits = [\"1G / second\", \"1G tokens / second\"]\ncost = {{ tokens = \"bytes / 4\" }}\n"
        );
        let address = free();
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("tollway.toml"), config).unwrap();
        let mut command = Command::new(program);
        command.args([
            "gateway",
            "--quiet",
            "--workers",
            "1",
            "--store",
            "memory:",
            "--listen",
            &address.to_string(),
        ]);
        Self::start(command, address, "/vendor/chat/completions", folder)
    }

    /// nginx with one worker and without buffers, as streams need it.
    pub(crate) fn nginx(vendor: SocketAddr) -> Self {
        let (address, folder) = (free(), TempDir::new().unwrap());
        let place = folder.path().display();
        let config = format!(
            "daemon off; worker_processes 1; master_process off; pid {place}/pid; error_log {place}/error.log;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log off; client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s; keepalive_requests 10000000;\n\
             upstream vendor {{ server {vendor}; keepalive 32; keepalive_requests 10000000; }}\n\
             server {{ listen {address}; location / {{ proxy_pass http://vendor; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_buffering off; proxy_request_buffering off; }} }} }}\n"
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        let program = ["/usr/sbin/nginx", "/usr/local/sbin/nginx"]
            .into_iter()
            .find(|program| PathBuf::from(program).is_file());
        let mut command = Command::new(program.unwrap_or("nginx"));
        command
            .arg("-p")
            .arg(folder.path())
            .arg("-e")
            .arg(folder.path().join("error.log"))
            .arg("-c")
            .arg(&file);
        Self::start(command, address, "/v1/chat/completions", folder)
    }

    /// LiteLLM's proxy with one worker, if `$LITELLM` is its program.
    pub(crate) fn litellm(vendor: SocketAddr) -> Option<Self> {
        let program = std::env::var_os("LITELLM")?;
        let (address, folder) = (free(), TempDir::new().unwrap());
        let config = format!(
            "model_list:\n  - model_name: m\n    litellm_params: {{ model: openai/m, api_base: \"http://{vendor}/v1\", api_key: bench }}\ngeneral_settings: {{ master_key: bench }}\n"
        );
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(program);
        command.arg("--config").arg(&file).args([
            "--host",
            "127.0.0.1",
            "--port",
            &address.port().to_string(),
        ]);
        Some(Self::start(command, address, "/v1/chat/completions", folder))
    }

    fn start(mut command: Command, address: SocketAddr, path: &str, folder: TempDir) -> Self {
        let started = command.current_dir(folder.path()).stdout(Stdio::null()).spawn();
        let process = started.unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
        let proxy = Self { address, path: path.to_owned(), process, _folder: folder };
        for _ in 0..600 {
            if TcpStream::connect(address).is_ok() {
                return proxy;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{:?} does not listen", command.get_program())
    }

    /// The CPU time of the process so far.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        let ticks: u64 =
            after_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND)
    }

    /// Its resident memory now.
    pub(crate) fn memory_mb(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1e3
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A free port, as far as one can know.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
