//! The proxies and the server, each a process: how it is started, and what it has used.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// A proxy that runs, killed when dropped.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    /// What is called there.
    pub path: String,
    process: Child,
    _folder: TempDir,
}

impl Proxy {
    /// `tollway gateway` of the folder that this program is in, with limits that no call reaches, and windows whose
    /// ends are far: calls keep away from those by waiting.
    pub fn gateway(vendor: SocketAddr, store: &str) -> Self {
        let program = built_command();
        let config = format!(
            "[apis.vendor]\nbase_url = \"http://{vendor}/v1\"\nrate = \"off\"\nlimits = [\"1G / hour\", \"1G tokens / hour\"]\ncost = {{ tokens = \"bytes / 4\" }}\n"
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
            store,
            "--listen",
            &address.to_string(),
        ]);
        Self::start(command, address, "/vendor/chat/completions", folder)
    }

    /// `tollway serve` with this config, at `admin` also the administration with or without a dashboard.
    pub fn server(config: &str, admin: SocketAddr, dashboard: &str) -> Self {
        let (address, folder) = (free(), TempDir::new().unwrap());
        std::fs::write(folder.path().join("tollway.toml"), config).unwrap();
        let mut command = Command::new(built_command());
        command.args(["serve", "--quiet", "--workers", "1", "--dashboard", dashboard]);
        command.args(["--listen", &address.to_string(), "--admin", &admin.to_string()]);
        Self::start(command, address, "/v1/take", folder)
    }

    /// nginx with one worker and without buffers, as streams need it.
    pub fn nginx(vendor: SocketAddr) -> Self {
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
    pub fn litellm(vendor: SocketAddr) -> Option<Self> {
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
        wait_for(address, &command.get_program().to_string_lossy());
        proxy
    }

    /// The CPU time of its threads so far, of the scheduler: `/proc/PID/stat` has hundredths of a second only.
    pub fn cpu(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        let nanos = tasks.filter_map(|task| {
            let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
    }

    /// Its resident memory now.
    pub fn memory_mb(&self) -> f64 {
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

/// A Redis for one gateway, killed when dropped.
pub struct Redis {
    /// As a store's URL.
    pub url: String,
    process: Child,
    _folder: TempDir,
}

impl Redis {
    /// Starts one without a file.
    pub fn start() -> Self {
        let (address, folder) = (free(), TempDir::new().unwrap());
        let mut command = Command::new("redis-server");
        command.args(["--save", "", "--bind", "127.0.0.1", "--port", &address.port().to_string()]);
        command.arg("--dir").arg(folder.path());
        let process = command.stdout(Stdio::null()).spawn().unwrap();
        wait_for(address, "redis-server");
        Self { url: format!("redis://{address}/0"), process, _folder: folder }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The command, built with the profile of this program. Cargo does nothing if it is up to date.
fn built_command() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let profile = own.parent().and_then(|folder| folder.file_name()).unwrap().to_str().unwrap();
    let profile = if profile == "debug" { "dev" } else { profile };
    if let Some(cargo) = std::env::var_os("CARGO") {
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--profile", profile, "-p", "tollway-cli"])
            .status();
        assert!(built.unwrap().success(), "the command is built");
    }
    let program = own.with_file_name("tollway");
    assert!(program.is_file(), "build it first: cargo build --profile {profile} -p tollway-cli");
    program
}

fn wait_for(address: SocketAddr, what: &str) {
    for _ in 0..600 {
        if TcpStream::connect(address).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{what} does not listen")
}

/// A free port, as far as one can know.
pub fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
