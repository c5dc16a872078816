//! Running a case of this program under valgrind.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The cost of one take.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) instructions: f64,
    pub(crate) allocations: f64,
}

pub(crate) fn is_installed() -> bool {
    let version =
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Counts per take: two runs, one with `takes` more, and the difference between them.
pub(crate) fn count(case: &str, takes: u64) -> Result<Counts> {
    let few = takes / 10;
    let difference = |count: fn(&str, u64) -> Result<u64>| -> Result<f64> {
        // In parallel: counts do not depend on the run time.
        let (base, more) = std::thread::scope(|scope| {
            let base = scope.spawn(|| count(case, few));
            let more = count(case, few + takes);
            (base.join().expect("counting does not panic"), more)
        });
        Ok((more? as f64 - base? as f64) / takes as f64)
    };
    // A map that happens to grow in one of the two runs is not a cost of a take.
    let allocations = (difference(allocations)? * 100.0).round() / 100.0;
    Ok(Counts { instructions: difference(instructions)?, allocations })
}

fn instructions(case: &str, takes: u64) -> Result<u64> {
    let options = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    number_after("Collected :", &run(&options, case, takes)?)
}

fn allocations(case: &str, takes: u64) -> Result<u64> {
    // Reading inline information takes longer than the case itself.
    let options = ["--tool=memcheck", "--leak-check=no", "--undef-value-errors=no", "--read-inline-info=no"];
    number_after("total heap usage:", &run(&options, case, takes)?)
}

fn run(options: &[&str], case: &str, takes: u64) -> Result<String> {
    let program = std::env::current_exe().context("this program's own path")?;
    let mut command = Command::new("valgrind");
    command.args(options).arg(program).args(["--count-case", case, &takes.to_string()]);
    let output = command.output().context("valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "valgrind could not run the case {case}:\n{said}");
    Ok(said)
}

/// `==7== Collected : 1234` and `==7== total heap usage: 1,234 allocs, ...`.
fn number_after(label: &str, said: &str) -> Result<u64> {
    let after = said.lines().find_map(|line| Some(line.split_once(label)?.1));
    let word = after.and_then(|after| after.split_whitespace().next()).unwrap_or_default();
    word.replace(',', "").parse().with_context(|| format!("valgrind did not say {label:?}:\n{said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_what_valgrind_says() {
        let said = "==7== \n==7== Collected : 12345\n==7==   total heap usage: 1,234 allocs, 5 frees, 6 bytes allocated";
        assert_eq!(number_after("Collected :", said).unwrap(), 12_345);
        assert_eq!(number_after("total heap usage:", said).unwrap(), 1_234);
        assert!(number_after("something else", said).is_err());
    }
}
