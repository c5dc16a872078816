//! Asks before a change that cannot be undone.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use crate::failure::Failure;
use crate::output::Output;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64;

/// Whether to ask.
#[derive(Debug, clap::Args)]
pub(crate) struct Confirmation {
    /// Do not ask. Needed where there is no terminal
    #[arg(long, short)]
    yes: bool,
}

impl Confirmation {
    /// Whether the user wants it.
    pub(super) fn given(&self, what: &str, output: &Output) -> Result<bool, Failure> {
        if self.yes {
            return Ok(true);
        }
        if output.is_json() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(Failure::usage(format!("this would {what}, and cannot ask without a terminal"))
                .advise("add --yes to do it, or --dry-run to see what would happen"));
        }
        let mut asking = io::stderr();
        write!(asking, "{what}? [y/N] ")?;
        asking.flush()?;
        let mut answer = String::new();
        io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut answer)?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
    }
}
