//! Problems of a config file, each with its place, a message and advice.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::excerpt::Excerpt;

/// How many problems of one file are listed; the others are only counted.
pub const PROBLEMS_MAX: usize = 50;

/// A config that cannot be used, with all of its problems.
///
/// Shown, each problem is a line that editors can jump to, the source line, and a mark under the wrong word; the
/// [crate](crate)'s documentation has an example.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    file: Option<PathBuf>,
    /// Never empty, in the order of the file.
    problems: Vec<ConfigProblem>,
    unlisted: usize,
    not_found: bool,
}

tollway_core::debug_as_display!(ConfigError);

/// One problem of a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// None: that of the error.
    file: Option<PathBuf>,
    excerpt: Option<Excerpt>,
    word: String,
    message: String,
    advice: Option<String>,
}

impl ConfigError {
    pub(crate) fn new(problems: Vec<ConfigProblem>, unlisted: usize) -> Self {
        Self { file: None, problems, unlisted, not_found: false }
    }

    /// A problem of the whole file, without a place in its text.
    pub(crate) fn whole(message: impl Into<String>, advice: &str) -> Self {
        Self::new(vec![ConfigProblem::new(None, "", &message.into(), advice)], 0)
    }

    #[must_use]
    pub(crate) fn in_file(self, file: &Path) -> Self {
        Self { file: Some(file.to_owned()), ..self }
    }

    #[must_use]
    pub(crate) fn not_found(self) -> Self {
        Self { not_found: true, ..self }
    }

    /// The file, if the config came from one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Whether there is no such file, so that a caller may continue without one.
    pub fn is_not_found(&self) -> bool {
        self.not_found
    }

    /// All problems in the order of the file; at most [`PROBLEMS_MAX`].
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }

    /// How many problems are not listed.
    pub fn unlisted(&self) -> usize {
        self.unlisted
    }

    /// The line of the first problem, counted from 1.
    pub fn line(&self) -> Option<usize> {
        self.problems.first()?.line()
    }

    /// The column of the first problem, in characters, counted from 1.
    pub fn column(&self) -> Option<usize> {
        self.problems.first()?.column()
    }

    /// The wrong word of the first problem; empty where something is missing.
    pub fn word(&self) -> &str {
        self.problems.first().map_or("", ConfigProblem::word)
    }

    /// The message of the first problem.
    pub fn message(&self) -> &str {
        self.problems.first().map_or("", ConfigProblem::message)
    }

    /// The advice for the first problem.
    pub fn advice(&self) -> Option<&str> {
        self.problems.first()?.advice()
    }
}

impl ConfigProblem {
    pub(crate) fn new(excerpt: Option<Excerpt>, word: &str, message: &str, advice: &str) -> Self {
        // The engine's messages already have the form "problem; advice".
        let (message, advice) = match advice {
            "" => message.split_once("; ").unwrap_or((message, "")),
            advice => (message, advice),
        };
        let advice = Some(clipped(advice)).filter(|advice| !advice.is_empty());
        Self { file: None, excerpt, word: clipped(word), message: clipped(message), advice }
    }

    #[must_use]
    pub(crate) fn in_file(self, file: Option<&Path>) -> Self {
        Self { file: file.map(Path::to_owned), ..self }
    }

    /// The file that it is in, of a config of several files.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Its line, counted from 1; `None` if the whole file is wrong.
    pub fn line(&self) -> Option<usize> {
        self.excerpt.as_ref().map(Excerpt::line)
    }

    /// Its column in characters, counted from 1.
    pub fn column(&self) -> Option<usize> {
        self.excerpt.as_ref().map(Excerpt::column)
    }

    /// The wrong word; empty where something is missing.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The advice.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }

    fn write(&self, file: Option<&Path>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file().or(file), &self.excerpt) {
            (Some(file), Some(place)) => {
                write!(f, "{}:{}:{}: ", file.display(), place.line(), place.column())?;
            }
            (Some(file), None) => write!(f, "{}: ", file.display())?,
            (None, Some(place)) => write!(f, "line {}, column {}: ", place.line(), place.column())?,
            (None, None) => {}
        }
        f.write_str(&self.message)?;
        if let Some(advice) = &self.advice {
            write!(f, "; {advice}")?;
        }
        match &self.excerpt {
            Some(excerpt) => write!(f, "\n{excerpt}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            problem.write(self.file(), f)?;
        }
        match self.unlisted {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Truncates: a file may hold a word of a megabyte.
fn clipped(text: &str) -> String {
    const CHARS_MAX: usize = 400;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
