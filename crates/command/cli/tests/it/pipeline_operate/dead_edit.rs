//! Correcting dead letters, on the command line and in an editor.

use std::os::unix::fs::PermissionsExt;

use tollway_pipeline::JobId;

use super::lab::{Lab, job};

const ID: JobId = JobId::new(1);

fn filled() -> Lab {
    let lab = Lab::new();
    lab.jobs().kill(job("autotag", "k"), "autotag", "bad input", "");
    lab
}

/// An editor that does this to the file `$1`.
fn editor(lab: &Lab, script: &str) -> String {
    let path = lab.home.write("editor.sh", format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn edit_in(lab: &Lab, script: &str) -> (i32, String) {
    let output = lab
        .home
        .tollway(&["pipeline", "dead", "edit", "1"])
        .env_remove("VISUAL")
        .env("EDITOR", editor(lab, script))
        .env("TMPDIR", lab.home.path())
        .output()
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// P7: edited. Data is kept byte for byte.
#[test]
fn dead_letter_is_edited_on_the_command_line() {
    let lab = filled();
    assert_eq!(
        lab.ok(&["dead", "edit", "1", "--data", "{\"page\":  7}", "--priority", "-3"]),
        "edited dead letter 1\n"
    );
    let edited = lab.jobs().job(ID);
    assert_eq!((edited.data.as_str(), edited.priority), ("{\"page\":  7}", -3));
    lab.home.write("fixed.json", "{\"page\": 8}\n");
    lab.ok(&["dead", "edit", "k", "--data", "@fixed.json", "--cost", "{\"adobe\": {\"requests\": 2}}"]);
    let edited = lab.jobs().job(ID);
    assert_eq!(
        (edited.data.as_str(), edited.cost.as_str()),
        ("{\"page\": 8}", "{\"adobe\":{\"requests\":2}}")
    );
    let piped = lab
        .home
        .tollway(&["pipeline", "dead", "edit", "1", "--data", "-"])
        .write_stdin("[9]")
        .output()
        .unwrap();
    assert!(piped.status.success());
    assert_eq!(lab.jobs().job(ID).data, "[9]");
    let (exit, _, error) = lab.run(&["dead", "edit", "1", "--data", "{"]);
    assert_eq!(exit, 65);
    assert!(error.contains("not JSON"), "{error}");
    assert_eq!(lab.run(&["dead", "edit", "1", "--data", "@missing"]).0, 66);
    lab.ok(&["dead", "redrive", "--id", "1"]);
    assert_eq!(lab.run(&["dead", "edit", "1", "--data", "1"]).0, 1, "it is no dead letter any more");
    assert_eq!(lab.jobs().job(ID).data, "[9]");
}

#[test]
fn dead_letter_is_edited_in_the_editor() {
    let lab = filled();
    assert_eq!(edit_in(&lab, "sed -i 's/\"k\"/\"fixed\"/' \"$1\"").0, 0);
    assert_eq!(lab.jobs().job(ID).data, "{\n  \"chunk_key\": \"fixed\"\n}");
    let (exit, said) = edit_in(&lab, "true");
    assert_eq!(exit, 0);
    assert!(said.contains("nothing was changed"), "{said}");
}

/// What was typed is never lost.
#[test]
fn text_that_is_not_stored_is_kept() {
    let lab = filled();
    let kept = |said: &str| {
        let (_, rest) = said.split_once("your text is in ").unwrap_or_else(|| panic!("{said}"));
        std::fs::read_to_string(rest.split_once(';').unwrap().0).unwrap()
    };
    let (exit, said) = edit_in(&lab, "printf '{ my work' > \"$1\"");
    assert_eq!(exit, 65, "{said}");
    assert!(said.contains("dead letter 1 is unchanged: the data is not JSON"), "{said}");
    assert_eq!(kept(&said), "{ my work");
    let (exit, said) = edit_in(&lab, "printf '[1]' > \"$1\"; exit 3");
    assert_eq!(exit, 1, "{said}");
    assert_eq!(kept(&said), "[1]");
    // Another operator was faster: the editor itself runs the other edit.
    let faster = format!(
        "printf '[2]' > \"$1\"; {} -q pipeline dead edit 1 --data '[3]'",
        env!("CARGO_BIN_EXE_tollway")
    );
    let (exit, said) = edit_in(&lab, &faster);
    assert_eq!(exit, 1, "{said}");
    assert!(said.contains("was changed meanwhile"), "{said}");
    assert_eq!((kept(&said).as_str(), lab.jobs().job(ID).data.as_str()), ("[2]", "[3]"));
}
