//! A Postgres server that a test starts.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tempfile::TempDir;

use super::log::Log;
use super::process::{Ending, Launch, Process};
use super::program;
use super::start::{self, Recipe};

/// A running Postgres with one empty database. It trusts all loopback connections and does not fsync.
pub struct PostgresServer {
    // Before the folder: the server must end before its folder is removed.
    process: Mutex<Process>,
    programs: Programs,
    port: u16,
    options: Vec<String>,
    folder: TempDir,
}

impl PostgresServer {
    /// Starts one.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with more settings: `&["max_connections=300"]`.
    pub fn start_with(settings: &[&str]) -> Self {
        let programs = Programs::find();
        let options = settings.iter().map(|&setting| setting.to_owned()).collect::<Vec<_>>();
        let folder = tempfile::Builder::new().prefix("postgres-").tempdir().expect("a temporary folder");
        programs.make_database(folder.path());
        let (port, process) = with_recipe(&programs, &options, folder.path(), start::anywhere);
        Self { process: Mutex::new(process), programs, port, options, folder }
    }

    /// A server shared by all tests of this process. Tests must leave it unchanged.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(Self::start)
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
        format!("postgres://postgres@{}/postgres", self.addr())
    }

    /// The result of a statement, as `psql -At` prints it: a line for each row, `|` between columns.
    ///
    /// # Panics
    ///
    /// If the statement fails.
    pub fn query(&self, sql: &str) -> String {
        let mut psql = Command::new(self.programs.folder.join("psql"));
        psql.args(["--no-psqlrc", "-At", "-v", "ON_ERROR_STOP=1", "-d", &self.url(), "-c", sql]);
        let output = psql.output().expect("psql comes with Postgres");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{sql}: {error}\n{}", self.log());
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Creates a user that must connect over TLS, and restarts with `one.crt` and `one.key` of this folder.
    pub fn require_tls(&self, user: &str, certificates: &Path) {
        let data = PathBuf::from(self.query("SHOW data_directory"));
        let owner = fs::metadata(&data).expect("the data folder of a running server");
        for name in ["one.crt", "one.key"] {
            let file = data.join(name);
            fs::copy(certificates.join(name), &file).expect("a certificate and its key");
            // The server refuses a key that it does not own.
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a file of ours");
            chown(&file, Some(owner.uid()), Some(owner.gid())).expect("a file of ours");
        }
        for statement in [
            &format!("CREATE ROLE {user} LOGIN"),
            &format!("GRANT CREATE ON DATABASE postgres TO {user}"),
            "ALTER SYSTEM SET ssl_cert_file = 'one.crt'",
            "ALTER SYSTEM SET ssl_key_file = 'one.key'",
            "ALTER SYSTEM SET ssl = on",
        ] {
            self.query(statement);
        }
        let access = format!("host all postgres all trust\nhostssl all {user} all trust\n");
        fs::write(data.join("pg_hba.conf"), access).expect("the data folder of a running server");
        self.restart();
    }

    /// Creates a user that must show this password, and restarts.
    pub fn require_password(&self, user: &str, password: &str) {
        let data = PathBuf::from(self.query("SHOW data_directory"));
        let quoted = password.replace('\'', "''");
        self.query(&format!(
            "SET password_encryption = 'scram-sha-256'; CREATE ROLE {user} LOGIN PASSWORD '{quoted}'"
        ));
        self.query(&format!("GRANT CREATE ON DATABASE postgres TO {user}"));
        let access = format!("host all postgres all trust\nhost all {user} all scram-sha-256\n");
        fs::write(data.join("pg_hba.conf"), access).expect("the data folder of a running server");
        self.restart();
    }

    /// Where it keeps its files and runs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        Log::in_folder(self.folder.path()).text_after(0)
    }

    /// Pauses all of its processes (SIGSTOP): connections stay open, the kernel accepts new ones, nothing is answered.
    pub fn pause(&self) {
        self.process().pause();
    }

    /// Resumes them.
    pub fn resume(&self) {
        self.process().resume();
    }

    /// Kills all of its processes (SIGKILL). Its port refuses until it is restarted.
    pub fn kill(&self) {
        self.kill_process(&mut self.process());
    }

    /// Kills it if it runs, and restarts it on its port with all committed data.
    pub fn restart(&self) {
        let mut process = self.process();
        self.kill_process(&mut process);
        *process = self.start_again();
    }

    /// Kills it and starts it again on its port, without its data.
    pub fn restart_empty(&self) {
        let mut process = self.process();
        self.kill_process(&mut process);
        fs::remove_dir_all(data(self.folder.path())).expect("the data of a server that has ended");
        self.programs.make_database(self.folder.path());
        *process = self.start_again();
    }

    /// A killed Postgres leaves a System V shared memory segment behind, of which the system has a limited number. Its id
    /// ends the seventh line of `postmaster.pid`.
    fn kill_process(&self, process: &mut Process) {
        process.kill();
        let told = fs::read_to_string(told(self.folder.path())).unwrap_or_default();
        if let Some((_, number)) = told.lines().nth(6).and_then(|line| line.trim_end().rsplit_once(' ')) {
            let _ = Command::new("ipcrm").args(["-m", number]).output();
        }
    }

    fn start_again(&self) -> Process {
        with_recipe(&self.programs, &self.options, self.folder.path(), |recipe| {
            start::again(recipe, self.port)
        })
    }

    /// A panicking test leaves the server usable.
    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Postgres's programs, and the user that runs them.
struct Programs {
    folder: PathBuf,
    user: Option<(u32, u32)>,
}

impl Programs {
    fn find() -> Self {
        let initdb = program::find_or_say("initdb", &program::postgres_folders(), "postgresql");
        // PATH may hold a link to it, without its siblings.
        let initdb = initdb.canonicalize().expect("a program that is there");
        Self {
            folder: initdb.parent().expect("a program is in a folder").to_owned(),
            user: other_than_root(),
        }
    }

    fn make_database(&self, folder: &Path) {
        let mut initdb = Command::new(self.folder.join("initdb"));
        initdb.args([
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "-D",
        ]);
        initdb.arg(data(folder)).current_dir(folder);
        if let Some((user, group)) = self.user {
            chown(folder, Some(user), Some(group)).expect("root may give a folder away");
            initdb.uid(user).gid(group);
        }
        let output = initdb.output().expect("initdb runs");
        assert!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The user that runs Postgres when the test runs as root, which Postgres refuses.
fn other_than_root() -> Option<(u32, u32)> {
    if !rustix::process::getuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("the users of this system");
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2).map_while(|word| word.parse().ok());
        Some((numbers.next()?, numbers.next()?))
    };
    Some(find("postgres").or_else(|| find("nobody")).expect("a user postgres or nobody"))
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// The file in which Postgres writes its pid and status.
fn told(folder: &Path) -> PathBuf {
    data(folder).join("postmaster.pid")
}

fn with_recipe<T>(
    programs: &Programs,
    options: &[String],
    folder: &Path,
    go: impl FnOnce(&Recipe) -> T,
) -> T {
    let launch = |port| launch(programs, options, folder, port);
    let answers = |_, pid| answers(folder, pid);
    go(&Recipe { folder, launch: &launch, answers: &answers })
}

fn launch(programs: &Programs, options: &[String], folder: &Path, port: u16) -> Launch {
    let port = format!("port={port}");
    // Shared memory in files is removed with the folder, also after a kill.
    let ours = [
        &port,
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "dynamic_shared_memory_type=mmap",
        "fsync=off",
        "shared_buffers=32MB",
    ];
    let settings = ours.into_iter().chain(options.iter().map(String::as_str));
    let mut args = vec!["-D".to_owned(), data(folder).to_str().expect("a readable name").to_owned()];
    args.extend(settings.flat_map(|setting| ["-c".to_owned(), setting.to_owned()]));
    Launch { program: programs.folder.join("postgres"), args, user: programs.user, ending: Ending::Quit }
}

/// `postmaster.pid` names the process (first line) and says when it accepts connections (eighth line).
fn answers(folder: &Path, pid: u32) -> bool {
    let told = fs::read_to_string(told(folder)).unwrap_or_default();
    let mut lines = told.lines();
    lines.next() == Some(&pid.to_string()) && lines.nth(6).is_some_and(|line| line.trim_end() == "ready")
}
