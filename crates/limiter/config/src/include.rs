//! The files of a config: the one that was named, and those that it includes.
//!
//! `include = ["policies/*.toml"]` names files from the folder of the file that it is in. It is read before anything else is
//! known of a file, so that a watch notices files that come and go.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::ConfigError;
use crate::file::CONFIG_BYTES_MAX;
use crate::report::{ProblemReport, place};
use crate::section::type_words;

/// The key of the paths, at the start of a file.
pub(crate) const INCLUDE: &str = "include";

/// The most files of a config: each is read twice a second to notice changes.
pub const CONFIG_FILES_MAX: usize = 1_024;

const EXAMPLE: &str = "write it like `include = [\"policies/*.toml\"]`";

/// A file of a config, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigText {
    /// The path for people.
    pub(crate) shown: PathBuf,
    pub(crate) text: String,
}

/// A file whose text is looked up for what it includes.
struct Opened {
    /// The path to read, and the folder of relative paths in it.
    folder: PathBuf,
    shown_folder: PathBuf,
    /// The file that includes it, and where; none for the first.
    included_by: Option<usize>,
    place: String,
}

/// Reads the file at `path` and those that it includes. Errors name it `shown`; relative paths in it start at `folder`.
pub(crate) fn read_all(path: &Path, shown: &Path, folder: &Path) -> Result<Vec<ConfigText>, ConfigError> {
    let mut files = Files::default();
    // A config that is compared with an earlier version is not a part of it.
    let shown_folder = if path.parent() == Some(folder) { parent(shown) } else { folder };
    files.add(path, shown, (folder, shown_folder), None)?;
    let mut next = 0;
    while next < files.texts.len() {
        files.add_included(next)?;
        next = next.saturating_add(1);
    }
    Ok(files.texts)
}

#[derive(Default)]
struct Files {
    texts: Vec<ConfigText>,
    opened: Vec<Opened>,
    /// By their real paths.
    known: HashMap<PathBuf, usize>,
    bytes: usize,
}

impl Files {
    fn add(
        &mut self,
        path: &Path,
        shown: &Path,
        (folder, shown_folder): (&Path, &Path),
        included: Option<(usize, String)>,
    ) -> Result<(), ConfigError> {
        let text = read(path, shown, CONFIG_BYTES_MAX.saturating_sub(self.bytes))?;
        self.bytes = self.bytes.saturating_add(text.len());
        let index = self.texts.len();
        self.known.insert(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()), index);
        self.texts.push(ConfigText { shown: shown.to_owned(), text });
        let (included_by, place) = included.unzip();
        self.opened.push(Opened {
            folder: folder.to_owned(),
            shown_folder: shown_folder.to_owned(),
            included_by,
            place: place.unwrap_or_default(),
        });
        Ok(())
    }

    /// Adds the files that this one includes; every mistake in its list is an error of this file.
    fn add_included(&mut self, index: usize) -> Result<(), ConfigError> {
        let Some((this, opened)) = self.texts.get(index).zip(self.opened.get(index)) else { return Ok(()) };
        let includes = includes(this)?;
        let (folder, shown_folder) = (opened.folder.clone(), opened.shown_folder.clone());
        let mut mistakes: Vec<(Range<usize>, String, String)> = Vec::new();
        for Include { pattern, at, place } in includes {
            let mut mistake = |message, advice: &str| mistakes.push((at.clone(), message, advice.to_owned()));
            let found = match matching(&folder, &shown_folder, &pattern) {
                Ok(found) => found,
                Err((message, advice)) => {
                    mistake(message, advice);
                    continue;
                }
            };
            for (path, shown) in found {
                if let Err((message, advice)) = self.check(index, &path, &shown) {
                    mistake(message, advice);
                    continue;
                }
                match self.add(&path, &shown, (parent(&path), parent(&shown)), Some((index, place.clone()))) {
                    Ok(()) => {}
                    Err(error) if error.line().is_some() => return Err(error),
                    Err(error) => {
                        let message =
                            format!("{} is included here, but {}", shown.display(), error.message());
                        mistake(message, error.advice().unwrap_or("check the path"));
                    }
                }
            }
        }
        let Some(this) = self.texts.get(index).filter(|_| !mistakes.is_empty()) else { return Ok(()) };
        let report = ProblemReport::new(&this.text);
        mistakes.into_iter().for_each(|(at, message, advice)| report.problem(at, message, advice));
        report.finish(Some(())).map_err(|error| error.in_file(&this.shown))
    }

    /// Whether this file may be included: it is not part of the config yet.
    fn check(&self, by: usize, path: &Path, shown: &Path) -> Result<(), (String, &'static str)> {
        if self.texts.len() >= CONFIG_FILES_MAX {
            let message = format!("a config of more than {CONFIG_FILES_MAX} files is not read");
            return Err((message, "put several policies into one file"));
        }
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let Some(known) = self.known.get(&real) else { return Ok(()) };
        let place = self.opened.get(*known).map(|opened| opened.place.as_str()).unwrap_or_default();
        let shown = shown.display();
        if *known == by {
            return Err((format!("{shown} includes itself"), "leave it out of its own list"));
        }
        if self.leads_to(*known, by) {
            let through = self.way(*known, by);
            return Err((format!("{shown} includes itself: {through}"), "remove one of the two"));
        }
        let message = match place {
            "" => format!("{shown} is the file that includes all others"),
            place => format!("{shown} is included twice; the other place is {place}"),
        };
        Err((message, "remove one of the two"))
    }

    /// Whether the first file includes the second, directly or through others.
    fn leads_to(&self, first: usize, second: usize) -> bool {
        let mut at = Some(second);
        while let Some(index) = at {
            if index == first {
                return true;
            }
            at = self.opened.get(index).and_then(|opened| opened.included_by);
        }
        false
    }

    /// Where each file between the two is included, the first file's include first.
    fn way(&self, first: usize, second: usize) -> String {
        let (mut places, mut at) = (Vec::new(), second);
        while at != first {
            let Some((opened, text)) = self.opened.get(at).zip(self.texts.get(at)) else { break };
            places.push(format!("{} includes {}", opened.place, text.shown.display()));
            let Some(by) = opened.included_by else { break };
            at = by;
        }
        places.reverse();
        places.join(", ")
    }
}

/// A path that a file includes.
struct Include {
    pattern: String,
    at: Range<usize>,
    /// The same for people.
    place: String,
}

/// What a file includes.
fn includes(file: &ConfigText) -> Result<Vec<Include>, ConfigError> {
    let head = head(&file.text);
    if !head.contains(INCLUDE) {
        return Ok(Vec::new());
    }
    // A line in a list or in a text of several lines may look like a header. The rest of it is missing then.
    let (mut table, mut errors) = DeTable::parse_recoverable(head);
    if !errors.is_empty() {
        (table, errors) = DeTable::parse_recoverable(&file.text);
    }
    let value = table.get_ref().get(INCLUDE).filter(|_| errors.is_empty());
    // Errors are reported with those of the other files.
    let Some(value) = value else { return Ok(Vec::new()) };
    let report = ProblemReport::new(&file.text);
    let mut includes = Vec::new();
    match value.get_ref() {
        DeValue::Array(list) => list.iter().for_each(|item| match item.get_ref().as_str() {
            Some(pattern) => includes.push(Include {
                pattern: pattern.to_owned(),
                at: item.span(),
                place: place(&file.shown, &file.text, item.span().start),
            }),
            None => wrong_type(&report, item),
        }),
        _ => wrong_type(&report, value),
    }
    report.finish(Some(includes)).map_err(|error| error.in_file(&file.shown))
}

fn wrong_type(report: &ProblemReport<'_>, value: &Spanned<DeValue<'_>>) {
    let message = format!("`include` must be a list of paths, not {}", type_words(value.get_ref()));
    report.problem(value.span(), message, EXAMPLE);
}

/// The text before the first header of a section, where the keys of no section are.
fn head(text: &str) -> &str {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            return text.get(..end).unwrap_or(text);
        }
        end = end.saturating_add(line.len());
    }
    text
}

/// The files that a pattern stands for, sorted by name; each with its path for people. Or what is wrong with it.
fn matching(
    folder: &Path,
    shown_folder: &Path,
    pattern: &str,
) -> Result<Vec<(PathBuf, PathBuf)>, (String, &'static str)> {
    let (in_folder, name) = pattern.rsplit_once('/').map_or(("", pattern), |(_, name)| {
        (pattern.get(..pattern.len().saturating_sub(name.len())).unwrap_or_default(), name)
    });
    if in_folder.contains('*') {
        let message = format!("only the name of a file may have a `*`, not a folder of {pattern:?}");
        return Err((message, EXAMPLE));
    }
    if name.is_empty() {
        return Err((format!("{pattern:?} names no file"), EXAMPLE));
    }
    let (folder, shown_folder) = (folder.join(in_folder), shown_folder.join(in_folder));
    if !name.contains('*') {
        let (path, shown) = (folder.join(name), shown_folder.join(name));
        return match path.metadata() {
            // A pipe would block.
            Ok(metadata) if !metadata.is_file() => {
                Err((format!("{} is included here, but is not a file", shown.display()), EXAMPLE))
            }
            _ => Ok(vec![(path, shown)]),
        };
    }
    let readable = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
    let entries = fs::read_dir(readable).map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::NotFound => "there is no such folder".to_owned(),
            _ => format!("it cannot be read: {error}"),
        };
        (format!("no file of {} can be included: {what}", shown_folder.display()), "check the path")
    })?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|found| folder.join(found).is_file())
        // Editors keep unfinished files under such names, and orchestrators their own links.
        .filter(|found| !found.starts_with('.') && fits(name, found))
        // One more than allowed is enough to be refused.
        .take(CONFIG_FILES_MAX.saturating_add(1))
        .collect();
    names.sort_unstable();
    Ok(names.iter().map(|name| (folder.join(name), shown_folder.join(name))).collect())
}

/// Whether a name fits a pattern, in which each `*` stands for any characters.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        // The earliest place leaves the most for the parts behind it.
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// The text of the file at `path`, of at most `room` bytes; errors name it `shown`.
fn read(path: &Path, shown: &Path, room: usize) -> Result<String, ConfigError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => ConfigError::whole("there is no such file", "").not_found(),
        _ => ConfigError::whole(format!("the file cannot be read: {error}"), ""),
    };
    let mut content = Vec::new();
    // One byte over the limit detects a file that is too large, without reading all of it.
    let bound = u64::try_from(room).unwrap_or(u64::MAX).saturating_add(1);
    let read = File::open(path).and_then(|file| file.take(bound).read_to_end(&mut content));
    let text = read.map_err(failed).and_then(|_| {
        check_size(content.len(), room)?;
        String::from_utf8(content)
            .map_err(|error| not_text(error.as_bytes(), error.utf8_error().valid_up_to()))
    });
    text.map_err(|error| error.in_file(shown))
}

/// Whether a text of so many bytes fits the room that is left in a config.
pub(crate) fn check_size(bytes: usize, room: usize) -> Result<(), ConfigError> {
    if bytes > room {
        let message = format!("a config of more than {CONFIG_BYTES_MAX} bytes is not read");
        return Err(ConfigError::whole(message, "check that it is the right file"));
    }
    Ok(())
}

fn not_text(content: &[u8], good: usize) -> ConfigError {
    let text = String::from_utf8_lossy(content);
    let report = ProblemReport::new(&text);
    // Everything before the first invalid byte is the same in both.
    report.problem(
        good..good.saturating_add(1),
        "the file is not UTF-8 text from here on",
        "save it as UTF-8",
    );
    match report.finish::<()>(None) {
        Err(error) => error,
        Ok(()) => ConfigError::whole("the file is not UTF-8 text", "save it as UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_of_a_name() {
        for (pattern, fitting, other) in [
            ("*.toml", "a.toml", "a.toml~"),
            ("a*", "a", "ba"),
            ("*", "x", "\u{0}/nothing is unfit"),
            ("a*b*c", "a-b-b-c", "a-c-b"),
            ("a*a", "aa", "a"),
        ] {
            assert!(fits(pattern, fitting), "{pattern} {fitting}");
            assert!(pattern == "*" || !fits(pattern, other), "{pattern} {other}");
        }
    }

    #[test]
    fn the_head_ends_at_the_first_header() {
        assert_eq!(head("include = ['a']\n [b]\ninclude = 1"), "include = ['a']\n");
        assert_eq!(head("a = 1"), "a = 1");
        assert_eq!(head("[a]"), "");
    }
}
