//! The names of all sections, and the trait that reads them.

use std::path::Path;

use crate::section::Section;

/// Every section of a config file. A crate that reads a new section adds its name here.
pub const SECTIONS: [&str; 10] = [
    "store",
    "policies",
    "apis",
    "bounds",
    "incidents",
    "consumers",
    "server",
    "gateway",
    "pipelines",
    "cloudwatch",
];

/// Reserved sections that this version does not support.
pub(crate) const SECTIONS_TO_COME: [&str; 1] = ["alarms"];

/// The part of a config that a program reads: the sections of the crates it links.
pub trait FromConfig: Sized {
    /// Reads its sections of the file and ignores the others. Mistakes go to the root's report; the result is then dropped,
    /// so any value may replace an invalid one.
    fn read(root: &mut Section<'_>) -> Self;

    /// Resolves relative paths against the config file's folder. Otherwise two programs with one config could use two
    /// stores.
    fn in_folder(&mut self, folder: &Path);
}
