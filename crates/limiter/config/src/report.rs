//! Collects the problems of a config's texts, so that one pass finds all of them.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

use crate::error::{ConfigError, ConfigProblem, PROBLEMS_MAX};
use crate::excerpt::{Excerpt, line_and_column};
use crate::include::ConfigText;
use crate::merge::{merge, moved};

/// The texts of a config, and their problems so far. A place in them is counted from the start of the first text.
pub struct ProblemReport<'a> {
    texts: Vec<PlacedText<'a>>,
    found: RefCell<Vec<Found>>,
}

/// A text, and where it starts.
struct PlacedText<'a> {
    start: usize,
    text: &'a str,
    /// None if it is not that of a file, or not yet known to be.
    file: Option<&'a Path>,
}

/// Kept small, because an invalid file may have very many; only the first become problems.
struct Found {
    at: Range<usize>,
    message: String,
    advice: String,
}

impl<'a> ProblemReport<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { texts: vec![PlacedText { start: 0, text, file: None }], found: RefCell::new(Vec::new()) }
    }

    /// On a config of several files.
    pub(crate) fn of_files(files: &'a [ConfigText]) -> Self {
        let mut start = 0;
        let place = |file: &'a ConfigText| {
            let placed = PlacedText { start, text: &file.text, file: Some(&file.shown) };
            // The end of a text is a place of its own.
            start = start.saturating_add(file.text.len()).saturating_add(1);
            placed
        };
        Self { texts: files.iter().map(place).collect(), found: RefCell::new(Vec::new()) }
    }

    pub(crate) fn is_of_files(&self) -> bool {
        self.texts.iter().any(|text| text.file.is_some())
    }

    /// The tables of all texts, merged; `None` if one of them is not TOML, because a partial result would mislead.
    pub(crate) fn tables(&self) -> Option<DeTable<'a>> {
        let parsed: Vec<Option<DeTable<'a>>> = self.texts.iter().map(|text| self.table_of(text)).collect();
        let mut whole = DeTable::new();
        for table in parsed.into_iter().collect::<Option<Vec<_>>>()? {
            merge(&mut whole, table, self);
        }
        Some(whole)
    }

    fn table_of(&self, of: &PlacedText<'a>) -> Option<DeTable<'a>> {
        let (root, errors) = DeTable::parse_recoverable(of.text);
        let mut line_end = 0;
        for error in &errors {
            let at = error.span().unwrap_or(of.text.len()..of.text.len());
            // One syntax error makes the parser fail on the rest of its line, too.
            if at.start >= line_end {
                let rest = of.text.get(at.start..).and_then(|rest| rest.find('\n'));
                line_end =
                    rest.map_or(usize::MAX, |newline| at.start.saturating_add(newline).saturating_add(1));
                let at = at.start.saturating_add(of.start)..at.end.saturating_add(of.start);
                self.problem(at, format!("not valid TOML: {}", error.message()), "");
            }
        }
        let root = errors.is_empty().then(|| root.into_inner())?;
        Some(if of.start == 0 { root } else { moved(root, of.start) })
    }

    /// The text that has this place, and the place in it.
    fn text_at(&self, at: usize) -> Option<(&PlacedText<'a>, usize)> {
        let behind = self.texts.partition_point(|text| text.start <= at);
        let text = self.texts.get(behind.saturating_sub(1))?;
        Some((text, at.saturating_sub(text.start)))
    }

    /// `FILE:LINE:COLUMN`, for messages about another place.
    pub(crate) fn place_of(&self, at: usize) -> String {
        let Some((text, at)) = self.text_at(at) else { return String::new() };
        place(text.file.unwrap_or(Path::new("")), text.text, at)
    }

    /// Adds a problem. Without separate advice, the message may have the form "problem; advice".
    pub fn problem(&self, at: Range<usize>, message: impl Into<String>, advice: impl Into<String>) {
        self.found.borrow_mut().push(Found { at, message: message.into(), advice: advice.into() });
    }

    /// Adds a problem with `part` of a string's value.
    pub fn problem_in(
        &self,
        string: &Spanned<&str>,
        part: Range<usize>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let at = match self.start_of_value(string) {
            Some(start) => start.saturating_add(part.start)..start.saturating_add(part.end),
            None => string.span(),
        };
        self.problem(at, message, advice);
    }

    /// Adds a problem with a string.
    pub fn problem_with(
        &self,
        string: &Spanned<&str>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.problem_in(string, 0..string.get_ref().len(), message, advice);
    }

    /// The number of problems so far.
    pub fn count(&self) -> usize {
        self.found.borrow().len()
    }

    /// The result, if there are no problems.
    pub(crate) fn finish<T>(self, read: Option<T>) -> Result<T, ConfigError> {
        let mut found = self.found.take();
        match read {
            Some(read) if found.is_empty() => Ok(read),
            _ if found.is_empty() => Err(ConfigError::whole("the config cannot be read", "")),
            _ => {
                found.sort_by_key(|found| found.at.start);
                let unlisted = found.len().saturating_sub(PROBLEMS_MAX);
                found.truncate(PROBLEMS_MAX);
                let problem = |found: &Found| {
                    let (of, start) = self.text_at(found.at.start)?;
                    let at = start..found.at.end.saturating_sub(of.start);
                    let word = of.text.get(at.clone()).unwrap_or_default();
                    let excerpt = Excerpt::of(of.text, &at);
                    let problem = ConfigProblem::new(Some(excerpt), word, &found.message, &found.advice);
                    Some(problem.in_file(of.file))
                };
                Err(ConfigError::new(found.iter().filter_map(problem).collect(), unlisted))
            }
        }
    }

    /// Where a string's value begins in the text, if it is written literally, without escapes.
    fn start_of_value(&self, string: &Spanned<&str>) -> Option<usize> {
        let (of, start) = self.text_at(string.span().start)?;
        let raw = of.text.get(start..string.span().end.saturating_sub(of.start))?;
        let quote = match raw.get(..3) {
            Some(quote @ ("\"\"\"" | "'''")) => quote,
            _ => raw.get(..1).filter(|quote| matches!(*quote, "\"" | "'"))?,
        };
        let inner = raw.strip_prefix(quote)?.strip_suffix(quote)?;
        // A newline right after three quotes is not part of the value.
        let value = match (quote.len(), inner.strip_prefix("\r\n").or_else(|| inner.strip_prefix('\n'))) {
            (3, Some(rest)) => rest,
            _ => inner,
        };
        let skipped = quote.len().saturating_add(inner.len().saturating_sub(value.len()));
        (value == *string.get_ref()).then(|| string.span().start.saturating_add(skipped))
    }
}

/// `FILE:LINE:COLUMN` of a place in a file's text.
pub(crate) fn place(file: &Path, text: &str, at: usize) -> String {
    let (line, column) = line_and_column(text, at);
    format!("{}:{line}:{column}", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The source behind each string of an array, as far as it can be pointed into.
    fn values<'a>(text: &'a str) -> Vec<Option<&'a str>> {
        let report = ProblemReport::new(text);
        let root = report.tables().unwrap();
        let array = root.get("a").unwrap().get_ref().as_array().unwrap();
        let value = |item: &Spanned<toml::de::DeValue<'a>>| {
            let string = Spanned::new(item.span(), item.get_ref().as_str().unwrap());
            let start = report.start_of_value(&string)?;
            text.get(start..start + string.get_ref().len())
        };
        array.iter().map(value).collect()
    }

    #[test]
    fn values_are_found_behind_every_kind_of_quote() {
        assert_eq!(values(r#"a = ["é x", 'lit', ""]"#), [Some("é x"), Some("lit"), Some("")]);
        assert_eq!(values("a = [\"\"\"three\"\"\", '''\nline''']"), [Some("three"), Some("line")]);
    }

    #[test]
    fn an_escaped_value_is_not_pointed_into() {
        assert_eq!(values(r#"a = ["tab\tx", "\u0061", "plain"]"#), [None, None, Some("plain")]);
    }

    #[test]
    fn only_the_first_problems_are_listed() {
        let report = ProblemReport::new("text");
        for _ in 0..PROBLEMS_MAX + 7 {
            report.problem(0..4, "wrong", "");
        }
        let error = report.finish(Some(())).unwrap_err();
        assert_eq!((error.problems().len(), error.unlisted()), (PROBLEMS_MAX, 7));
        assert!(error.to_string().ends_with("\nand 7 more"));
    }
}
