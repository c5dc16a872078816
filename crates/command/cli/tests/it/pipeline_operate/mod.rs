//! The operators' commands of a pipeline, run as a user runs them: beside an idle file, and beside a process that owns it.

mod again;
mod change;
mod compact;
mod dead;
mod dead_edit;
mod frozen;
mod lab;
#[cfg(feature = "aws")]
mod live_move;
mod migrate;
#[cfg(feature = "aws")]
mod move_task;
mod paused;
mod plan;
#[cfg(feature = "postgres")]
mod postgres;
mod renamed;
mod results;
#[cfg(feature = "aws")]
mod sqs;
#[cfg(feature = "aws")]
mod sqs_groups;
#[cfg(feature = "aws")]
mod sqs_moved_groups;
mod stages;
mod terminal;
mod why;

const COMMANDS: &[&[&str]] = &[
    &["plan"],
    &["status"],
    &["why"],
    &["pause"],
    &["resume"],
    &["drain"],
    &["concurrency"],
    &["cancel"],
    &["prioritize"],
    &["results"],
    &["backup"],
    &["move"],
    &["compact"],
    &["migrate"],
    &["dead", "list"],
    &["dead", "show"],
    &["dead", "edit"],
    &["dead", "redrive"],
    &["dead", "drop"],
    &["dead", "export"],
];

#[test]
fn help_of_every_command_has_examples() {
    let lab = lab::Lab::new();
    for command in COMMANDS.iter().filter(|command| command[0] != "status") {
        let help = lab.ok(&[command, &["--help"][..]].concat());
        assert!(help.contains("Examples:\n  tollway pipeline "), "{command:?}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{command:?}: {help}");
    }
}

/// No command works on a pipeline that the config does not have, and none makes a file by being asked for something.
#[test]
fn commands_name_what_is_missing() {
    let lab = lab::Lab::new();
    let (exit, _, error) = lab.run(&["-p", "pdg", "dead", "list"]);
    assert_eq!(exit, 66);
    assert!(error.contains("there is no pipeline \"pdg\"") && error.contains("there are: pdf"), "{error}");
    for command in
        [&["dead", "list"][..], &["why", "1"], &["results"], &["backup", "b.db"], &["cancel", "--all"]]
    {
        let (exit, _, error) = lab.run(command);
        assert_eq!(exit, 2, "{command:?}");
        assert!(error.contains("there are no jobs") && error.contains("enqueue some first"), "{error}");
    }
    assert!(!lab.file().exists());
}
