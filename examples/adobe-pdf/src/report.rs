//! What came of it: from the vendor's own log, the files and the jobs.

use std::path::Path;

use tollway_pipeline::run::progress::Progress;

use crate::arguments::{Arguments, LIMIT};
use crate::files::Files;
use crate::vendor_log::VendorCounts;
use crate::{BoxError, say};

/// How many minutes are listed.
const MINUTES_SHOWN: usize = 20;

pub(crate) struct Report<'a> {
    pub(crate) progress: Progress,
    pub(crate) chunks: usize,
    pub(crate) pdfs: usize,
    /// The vendor's log.
    pub(crate) log: &'a Path,
    pub(crate) files: &'a Files,
    pub(crate) arguments: &'a Arguments,
}

impl Report<'_> {
    pub(crate) async fn print(&self) -> Result<(), BoxError> {
        let vendor = VendorCounts::read(self.log, self.arguments.minute)?;
        let files = self.files.count().await.map_err(|error| format!("{error:?}"))?;
        let done = |stage: usize| self.progress.stages.get(stage).map_or(0, |stage| stage.done);
        let sum = |of: fn(&tollway_pipeline::run::progress::StageProgress) -> u64| {
            self.progress.stages.iter().map(of).sum::<u64>()
        };
        say(format_args!("\nminutes  {} requests, of {LIMIT} each", minutes(&vendor.windows)))?;
        say(format_args!("calls    {} accepted, {} refused by the vendor", vendor.accepted, vendor.refused))?;
        say(format_args!("chunks   {}: {} tagged, {} extracted", self.chunks, done(0), done(1)))?;
        say(format_args!("PDFs     {}: {} finished", self.pdfs, done(2)))?;
        say(format_args!(
            "files    {files}{}",
            if self.is_kept() { "" } else { "; keep them with --folder DIR" }
        ))?;
        say(format_args!(
            "jobs     {} failed tries, {} crashes, {} refusals, {} dead letters",
            sum(|stage| stage.events.failures),
            sum(|stage| stage.events.crashes),
            sum(|stage| stage.events.rate_limited),
            sum(|stage| stage.dead),
        ))?;
        Ok(())
    }

    fn is_kept(&self) -> bool {
        self.arguments.folder.is_some() || self.arguments.files.is_some()
    }
}

/// `200, 200, 164`, or how many more there are.
fn minutes(windows: &[u64]) -> String {
    let mut shown: Vec<String> = windows.iter().take(MINUTES_SHOWN).map(u64::to_string).collect();
    if let Some(more @ 1..) = windows.len().checked_sub(MINUTES_SHOWN) {
        shown.push(format!("{more} more with at most {}", windows.iter().max().unwrap_or(&0)));
    }
    shown.join(", ")
}
