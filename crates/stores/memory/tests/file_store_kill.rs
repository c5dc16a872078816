//! Processes killed at any moment: no unit is granted twice, and the file stays readable.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "it/file_support.rs"]
mod file_support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use file_support::{open, place, subject, try_take, used};
use tollway_core::Policy;

const PATH: &str = "TOLLWAY_TEST_STATE_FILE";
const LIMIT: u64 = 6_000;
const ROUNDS: usize = 30;
const CHILDREN: usize = 4;

fn policies() -> [Policy; 2] {
    ["adobe", "gemini"].map(|name| Policy::new(name, [format!("{LIMIT} requests / day").as_str()]).unwrap())
}

/// The work of a child process; without its environment variable this test does nothing.
#[test]
fn child_takes_until_denied() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let store = open(Path::new(&path));
    let [one, other] = &policies();
    let mut out = std::io::stdout();
    loop {
        match try_take(&store, &[one, other], &subject("team-a")) {
            Ok(true) => out.write_all(b"\ngranted\n").unwrap(),
            Ok(false) => return,
            Err(error) => {
                // A failed write took nothing, also in this process's view.
                let used = used(&store, one, &subject("team-a"));
                out.write_all(format!("\nfailed {:?} at {used}\n", error.retry).as_bytes()).unwrap();
                return;
            }
        }
        out.flush().unwrap();
    }
}

fn spawn(path: &Path, before: &str) -> Child {
    let own = std::env::current_exe().unwrap();
    let script = format!("{before} exec \"$0\" --exact child_takes_until_denied --nocapture");
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(own).env(PATH, path);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills the child after it has reported `grants` grants. Returns how many it has reported in all.
fn kill_after(mut child: Child, grants: u64) -> u64 {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut granted = |most| lines.by_ref().filter(|line| line == "granted").take(most).count();
    let before = granted(usize::try_from(grants).unwrap());
    child.kill().unwrap();
    let rest = granted(usize::MAX);
    child.wait().unwrap();
    u64::try_from(before + rest).unwrap()
}

#[test]
fn killed_processes_gain_no_units_and_leave_a_readable_file() {
    let (_directory, path) = place();
    let [one, other] = policies();
    let mut reported = 0;
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..ROUNDS {
        let kills = (0..CHILDREN).map(|_| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (spawn(&path, ""), (dice >> 33) % 60)
        });
        let kills: Vec<_> = kills.collect();
        let threads: Vec<_> = kills
            .into_iter()
            .map(|(child, grants)| std::thread::spawn(move || kill_after(child, grants)))
            .collect();
        reported += threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>();
        let store = open(&path);
        let stored = used(&store, &one, &subject("team-a"));
        assert!(reported <= stored && stored <= LIMIT, "round {round}: {reported} of {stored} reported");
        assert_eq!(stored, used(&store, &other, &subject("team-a")), "a take was torn apart");
    }
    let last: Vec<_> = (0..CHILDREN).map(|_| spawn(&path, "")).collect();
    reported += last.into_iter().map(|child| kill_after(child, u64::MAX)).sum::<u64>();
    assert_eq!(used(&open(&path), &one, &subject("team-a")), LIMIT);
    let lost = LIMIT - reported;
    assert!(lost <= u64::try_from(ROUNDS * CHILDREN).unwrap(), "{lost} lost: more than one for each kill");
}

/// A full disk: the take that could not be written is not granted, and its partial record is cut off.
#[test]
fn failed_write_has_no_effect() {
    let (_directory, path) = place();
    let mut child = spawn(&path, "trap '' XFSZ; ulimit -f 8;");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let lines: Vec<String> = lines.collect();
    child.wait().unwrap();
    let granted = lines.iter().filter(|line| *line == "granted").count();
    assert!(granted > 0 && lines.contains(&format!("failed Safe at {granted}")), "{lines:?}");
    let size = std::fs::metadata(&path).unwrap().len();
    let store = open(&path);
    assert_eq!(size, std::fs::metadata(&path).unwrap().len(), "no torn tail is left");
    assert_eq!(used(&store, &policies()[0], &subject("team-a")), u64::try_from(granted).unwrap());
    assert!(
        try_take(&store, &[&policies()[1]], &subject("team-a")).unwrap(),
        "takes succeed once there is room"
    );
}
