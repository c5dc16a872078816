//! The mode of every file that the program makes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::doctor::{codes, told};
use crate::home::Home;
use crate::serve::serving::{Serving, wait_until};

const CONFIG: &str = "[store]\nurl = 'file:state'\n[policies.api]\nlimits = ['9 / hour']\n\
    [pipelines.docs]\nengine = 'sqlite:jobs.db'\n[[pipelines.docs.stages]]\nname = 'one'\ntake = { api = { requests = 1 } }\nhandler = { command = ['cat'] }\n\
    [consumers]\nheader = 'x-consumer-id'\nrecords = 'sqlite:records.db'\n\
    [server]\nlisten = '127.0.0.1:0'\nadmin = '127.0.0.1:0'\n";

/// Every file below a folder, with its mode.
fn files(folder: &Path, found: &mut Vec<(String, u32)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let metadata = fs::symlink_metadata(entry.path()).unwrap();
        if metadata.is_dir() {
            files(&entry.path(), found);
        } else {
            let name = entry.file_name().into_string().unwrap();
            found.push((name, metadata.permissions().mode() & 0o777));
        }
    }
}

/// Whatever the umask leaves, only the owner can read what holds subjects, jobs or records.
#[test]
fn files_are_private() {
    let home = Home::with_config(CONFIG);
    home.write("jobs.jsonl", "{\"key\": \"a\"}\n");
    for words in [
        &["take", "api"][..],
        &["pipeline", "enqueue", "jobs.jsonl"],
        &["pipeline", "backup", "copy.db"],
        &["pipeline", "status"],
    ] {
        let output = home.tollway(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    let serving = Serving::start(&home, &[]);
    let mut pipeline = Command::new(env!("CARGO_BIN_EXE_tollway"));
    pipeline.args(["pipeline", "run", "--stay"]).current_dir(home.path()).env("HOME", home.path());
    pipeline.env_remove("TOLLWAY_CONFIG").stdout(Stdio::null()).stderr(Stdio::null());
    let mut pipeline = pipeline.spawn().unwrap();
    wait_until("the pipeline runs", || {
        ["jobs.db-wal", "jobs.db-socket"].iter().all(|name| home.path().join(name).exists())
    });
    // Killed, because at its end it removes some.
    pipeline.kill().unwrap();
    pipeline.wait().unwrap();
    assert_eq!(serving.stop().0, Some(0));
    let mut found = Vec::new();
    files(home.path(), &mut found);
    let names = found.iter().map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>();
    let listed = [
        "copy.db",
        "jobs.db",
        "jobs.db-owner",
        "jobs.db-shm",
        "jobs.db-socket",
        "jobs.db-wal",
        "jobs.jsonl",
        "records.db",
        "state",
        "state.history",
        "state.lock",
        "tollway.toml",
    ];
    assert_eq!(
        names.into_iter().collect::<Vec<_>>(),
        listed,
        "a new file belongs into this list, and is private"
    );
    found.retain(|(name, _)| !["tollway.toml", "jobs.jsonl"].contains(&name.as_str()));
    let open: Vec<_> = found.iter().filter(|(_, mode)| mode & 0o077 != 0).collect();
    assert!(open.is_empty(), "others can read {open:?}");
}

/// Files of earlier versions keep their mode, and `doctor` names them with the command that closes them.
#[test]
fn doctor_names_files_that_others_can_read() {
    let home = Home::with_config(CONFIG);
    home.write("jobs.jsonl", "{\"key\": \"a\"}\n");
    for words in [&["take", "api"][..], &["pipeline", "enqueue", "jobs.jsonl"]] {
        assert_eq!(home.run(words).0, 0, "{words:?}");
    }
    let code = "readable-by-others";
    assert!(!codes(&home, &[]).contains(&format!("({code})")));
    for (name, mode) in [("jobs.db", 0o644), ("state", 0o640)] {
        fs::set_permissions(home.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let what = told(&home, &[], code, "what");
    assert!(
        what.contains("jobs.db (0644)") && what.contains("state (0640)") && !what.contains("owner"),
        "{what}"
    );
    let fix = told(&home, &[], code, "fix");
    let command = fix.split('`').nth(1).unwrap();
    let ran = Command::new("sh").args(["-c", command]).current_dir(home.path()).status().unwrap();
    assert!(ran.success() && !codes(&home, &[]).contains(&format!("({code})")), "{command}");
}

/// Another user's link does not choose the file that is written.
#[test]
fn jobs_are_not_written_through_a_link() {
    for link in ["jobs.db", "jobs.db-owner"] {
        let home = Home::with_config(CONFIG);
        home.write("jobs.jsonl", "{\"key\": \"a\"}\n");
        symlink(home.path().join("elsewhere"), home.path().join(link)).unwrap();
        let output = home.tollway(&["pipeline", "enqueue", "jobs.jsonl"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("symbolic link"), "{link}: {said}");
        assert!(!home.path().join("elsewhere").exists(), "{link}");
    }
}

/// A lock of a program that is no pipeline is named, not waited for.
#[test]
fn foreign_lock_is_named() {
    let home = Home::with_config(CONFIG);
    home.write("jobs.jsonl", "{\"key\": \"a\"}\n");
    let lock = fs::File::create(home.path().join("jobs.db-owner")).unwrap();
    lock.lock().unwrap();
    let output = home.tollway(&["pipeline", "enqueue", "jobs.jsonl"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("another program has locked"), "{said}");
    assert!(said.contains("jobs.db-owner"), "{said}");
}

/// A mistake on the command line does not show the password of a URL.
#[test]
fn wrong_arguments_show_no_password() {
    let home = Home::with_config(CONFIG);
    for words in [
        &["take", "api", "--store", "redis://:hunter2@db/x/y"][..],
        &["take", "api", "--store=postgres://app:hunter2@"],
        &["take", "api", "redis://:hunter2@db/0", "more"],
        &["pipeline", "migrate", "postgres://app:hunter2@db/app"],
        &["pipeline", "migrate", "--to", "postgres://app:hunter2@"],
        &["doctor", "--server", "http://me:hunter2@host:1"],
    ] {
        let output = home.tollway(words).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success() && !said.contains("hunter2"), "{words:?}: {said}");
    }
}
