//! Hot reload: however a file is changed, the change is seen, and a wrong file keeps the old config.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may fail the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tollway::config::{ConfigFile, ConfigWatch};
use tollway::{Config, ConfigError};

const INTERVAL: Duration = Duration::from_millis(20);
/// Only so that a test that fails ends; nothing is measured against it.
const DEADLINE: Duration = Duration::from_secs(30);

fn text(amount: u64) -> String {
    format!("[policies.adobe]\nlimits = [\"{amount} requests / minute\"]\n")
}

fn amount(config: &Config) -> Option<u64> {
    Some(config.policy("adobe")?.limits().first()?.amount())
}

struct Watched {
    folder: TempDir,
    news: Receiver<Result<Config, ConfigError>>,
    watch: ConfigWatch,
}

impl Watched {
    /// Watches `tollway.toml` of a folder that `prepare` has filled.
    fn start(prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let (tell, news) = channel();
        let file = ConfigFile::load(folder.path().join("tollway.toml")).unwrap();
        assert_eq!(amount(file.config()), Some(1));
        let watch = file.watch(INTERVAL, move |change| tell.send(change).unwrap_or_default()).unwrap();
        Self { folder, news, watch }
    }

    fn of_one_file() -> Self {
        Self::start(|folder| fs::write(folder.join("tollway.toml"), text(1)).unwrap())
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn config(&self) -> PathBuf {
        self.path("tollway.toml")
    }

    fn next(&self) -> Result<Config, ConfigError> {
        self.news.recv_timeout(DEADLINE).expect("the change is seen")
    }

    /// A config with this amount comes. What comes before is allowed: on a busy machine the file may be seen while it
    /// is away, or emptied and not yet written.
    fn becomes(&self, expected: u64) {
        while self.next().ok().and_then(|config| amount(&config)) != Some(expected) {}
    }

    /// Changes the file at one stroke, so that nothing in between can be seen.
    fn replace(&self, text: &str) {
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.config()).unwrap();
    }
}

#[test]
fn a_write_in_place_is_seen() {
    let watched = Watched::of_one_file();
    for n in 2..5 {
        fs::write(watched.config(), text(n)).unwrap();
        watched.becomes(n);
    }
}

#[test]
fn a_change_that_keeps_length_and_time_is_seen() {
    let watched = Watched::of_one_file();
    let time = fs::metadata(watched.config()).unwrap().modified().unwrap();
    fs::write(watched.config(), text(2)).unwrap();
    fs::File::options().write(true).open(watched.config()).unwrap().set_modified(time).unwrap();
    watched.becomes(2);
}

#[test]
fn a_file_moved_over_it_is_seen() {
    let watched = Watched::of_one_file();
    for n in 2..5 {
        watched.replace(&text(n));
        watched.becomes(n);
    }
}

/// Old file aside, new file under the name, old file away.
#[test]
fn an_editors_rename_and_rewrite_is_seen() {
    let watched = Watched::of_one_file();
    for n in 2..5 {
        fs::rename(watched.config(), watched.path("tollway.toml~")).unwrap();
        fs::write(watched.config(), text(n)).unwrap();
        fs::remove_file(watched.path("tollway.toml~")).unwrap();
        watched.becomes(n);
    }
}

/// As orchestrators mount their files: the name is a link through a folder that is itself a link.
#[cfg(unix)]
#[test]
fn a_link_turned_to_another_file_is_seen() {
    use std::os::unix::fs::symlink;
    let watched = Watched::start(|folder| {
        for n in 1..4 {
            fs::create_dir(folder.join(n.to_string())).unwrap();
            fs::write(folder.join(n.to_string()).join("tollway.toml"), text(n)).unwrap();
        }
        symlink("1", folder.join("data")).unwrap();
        symlink("data/tollway.toml", folder.join("tollway.toml")).unwrap();
    });
    for n in 2..4 {
        symlink(n.to_string(), watched.path("turned")).unwrap();
        fs::rename(watched.path("turned"), watched.path("data")).unwrap();
        watched.becomes(n);
    }
}

#[test]
fn an_invalid_file_is_reported_once_and_a_valid_one_again() {
    let watched = Watched::of_one_file();
    for wrong in ["minit", "minuet"] {
        watched.replace(&text(9).replace("minute", wrong));
        let error = watched.next().unwrap_err();
        assert_eq!(error.word(), wrong);
        assert_eq!(error.file(), Some(watched.config().as_path()));
    }
    // Time for many looks at the same wrong content: the next news must be the good one.
    std::thread::sleep(INTERVAL * 10);
    watched.replace(&text(3));
    assert_eq!(amount(&watched.next().unwrap()), Some(3));
}

#[test]
fn a_missing_file_is_reported_once_and_its_return_again() {
    let watched = Watched::of_one_file();
    fs::rename(watched.config(), watched.path("aside")).unwrap();
    assert!(watched.next().unwrap_err().is_not_found());
    std::thread::sleep(INTERVAL * 10);
    fs::rename(watched.path("aside"), watched.config()).unwrap();
    assert_eq!(amount(&watched.next().unwrap()), Some(1), "good again, so that an error on show can go");
}

#[test]
fn an_unchanged_config_is_not_reported() {
    let watched = Watched::of_one_file();
    watched.replace(&text(1));
    std::thread::sleep(INTERVAL * 10);
    watched.replace(&text(2));
    assert_eq!(amount(&watched.next().unwrap()), Some(2));
}

#[test]
fn dropping_the_watch_frees_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollway.toml");
    fs::write(&path, text(1)).unwrap();
    let held = Arc::new(());
    let holder = held.clone();
    // An interval no test would wait for: the drop itself must wake the thread.
    let hour = Duration::from_secs(3_600);
    let watch = ConfigFile::load(&path).unwrap().watch(hour, move |_| drop(holder.clone())).unwrap();
    assert_eq!(Arc::strong_count(&held), 2);
    drop(watch);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn the_callback_may_drop_the_watch() {
    let Watched { folder, news, watch } = Watched::of_one_file();
    drop((watch, news));
    let path = folder.path().join("tollway.toml");
    let (dropped, done) = channel();
    let own = Arc::new(Mutex::new(None::<ConfigWatch>));
    let inner = own.clone();
    let changed = move |_| {
        drop(inner.lock().unwrap().take());
        dropped.send(()).unwrap_or_default();
    };
    *own.lock().unwrap() = Some(ConfigFile::load(&path).unwrap().watch(INTERVAL, changed).unwrap());
    fs::write(&path, text(2)).unwrap();
    done.recv_timeout(DEADLINE).unwrap();
    // The callback's sender goes when the thread has ended.
    assert!(
        done.recv_timeout(DEADLINE)
            .is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Disconnected)
    );
}
