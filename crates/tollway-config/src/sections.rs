//! The sections of the file by name, and what reads them.

use std::path::Path;

use crate::section::Section;

/// Every section of a config file. A crate that reads another one adds its name here.
pub const SECTIONS: [&str; 5] = ["store", "policies", "apis", "consumers", "server"];

/// Sections that the format has and this version does not.
pub(crate) const SECTIONS_TO_COME: [&str; 2] = ["pipelines", "alarms"];

/// What a program reads of a config file: the sections of the parts that it links.
pub trait FromConfig: Sized {
    /// Reads its sections of the file and ignores the others. Mistakes go to the root's report; the result is dropped then, so
    /// any value may replace a wrong one.
    fn read(root: &mut Section<'_>) -> Self;

    /// Resolves relative paths from the config file's folder, wherever the program runs: else two programs with one
    /// config would have two stores.
    fn in_folder(&mut self, folder: &Path);
}
