//! `uploads/{job_id}/chunks/{name}.pdf`: a pattern that takes a key apart, and templates that build texts of the parts.

use std::collections::HashSet;
use std::ops::Range;

/// The most placeholders of a pattern. They bound the work for a key that nearly matches.
const PLACEHOLDERS_MAX: usize = 8;

/// What S3 object keys look like.
///
/// `{name}` matches one or more characters except `/`; `{*name}` matches `/`, too. If a key matches in several ways, the
/// first placeholder is as short as possible, then the second, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
}

/// A text with placeholders of a [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Placeholder { name: String, slashes: bool },
}

/// Why a pattern or a template cannot be read.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PatternError {
    /// Where in the text.
    pub at: Range<usize>,
    /// What is wrong there.
    pub message: String,
}

tollway_core::debug_as_display!(PatternError);

/// What the placeholders of a pattern matched in one key.
pub(super) struct Captures<'a>(Vec<(&'a str, &'a str)>);

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let parts = read_parts(text)?;
        let mut names: Vec<&str> = Vec::new();
        for (index, (part, at)) in parts.iter().enumerate() {
            let Some(name) = part.name() else { continue };
            let previous = index.checked_sub(1).and_then(|index| parts.get(index));
            let message = if previous.is_some_and(|(part, _)| part.name().is_some()) {
                format!("`{{{name}}}` follows another placeholder; put a character between them")
            } else if names.contains(&name) {
                format!("`{{{name}}}` occurs twice; give each placeholder its own name")
            } else if names.len() == PLACEHOLDERS_MAX {
                format!("a pattern has at most {PLACEHOLDERS_MAX} placeholders")
            } else {
                names.push(name);
                continue;
            };
            return Err(PatternError { at: at.clone(), message });
        }
        Ok(Self { parts: parts.into_iter().map(|(part, _)| part).collect() })
    }

    /// The names of its placeholders.
    pub fn names(&self) -> Vec<&str> {
        self.parts.iter().filter_map(Part::name).collect()
    }

    pub(super) fn captures<'a>(&'a self, key: &'a str) -> Option<Captures<'a>> {
        let mut matching = Matching { key, matched: Vec::new(), failed: HashSet::new() };
        let found = matching.matches(&self.parts, 0);
        let texts = matching.matched.into_iter().filter_map(|range| key.get(range));
        found.then(|| Captures(self.names().into_iter().zip(texts).collect()))
    }
}

impl Template {
    /// Reads a template that uses placeholders of this pattern.
    pub fn parse(text: &str, pattern: &Pattern) -> Result<Self, PatternError> {
        let known = pattern.names();
        let parts = read_parts(text)?;
        for (part, at) in &parts {
            let message = match part {
                Part::Placeholder { name, slashes: true } => {
                    format!("write it `{{{name}}}` here, without the `*`")
                }
                Part::Placeholder { name, .. } if !known.contains(&name.as_str()) => match &known[..] {
                    [] => "the pattern has no placeholders".to_owned(),
                    _ => format!("the pattern has no `{{{name}}}`; it has {}", known.join(", ")),
                },
                _ => continue,
            };
            return Err(PatternError { at: at.clone(), message });
        }
        Ok(Self { parts: parts.into_iter().map(|(part, _)| part).collect() })
    }

    pub(super) fn fill(&self, captures: &Captures<'_>) -> String {
        let text = |part: &Part| match part {
            Part::Literal(text) => text.clone(),
            Part::Placeholder { name, .. } => captures.get(name).unwrap_or_default().to_owned(),
        };
        self.parts.iter().map(text).collect()
    }
}

impl Captures<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }
}

impl Part {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Literal(_) => None,
            Self::Placeholder { name, .. } => Some(name),
        }
    }
}

/// The parts of a text, and where they are in it.
fn read_parts(text: &str) -> Result<Vec<(Part, Range<usize>)>, PatternError> {
    let wrong = |at: Range<usize>, message: &str| Err(PatternError { at, message: message.to_owned() });
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let end = at + rest.find(['{', '}']).unwrap_or(rest.len());
        if end > at {
            parts.push((Part::Literal(text.get(at..end).unwrap_or_default().to_owned()), at..end));
            at = end;
            continue;
        }
        let Some(inside) = rest.strip_prefix('{').and_then(|rest| rest.split('}').next()) else {
            return wrong(at..at + 1, "`}` ends no placeholder; write placeholders like `{name}`");
        };
        let end = at + inside.len() + 2;
        if text.get(end - 1..end) != Some("}") {
            return wrong(at..text.len(), "`{` begins a placeholder that has no `}`");
        }
        let name = inside.strip_prefix('*').unwrap_or(inside);
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return wrong(at..end, "a placeholder's name has letters, digits and `_`, as in `{job_id}`");
        }
        parts.push((Part::Placeholder { name: name.to_owned(), slashes: inside.starts_with('*') }, at..end));
        at = end;
    }
    if parts.is_empty() { wrong(0..0, "it is empty") } else { Ok(parts) }
}

struct Matching<'a> {
    key: &'a str,
    /// What each placeholder matched so far.
    matched: Vec<Range<usize>>,
    /// How many parts were left, and where, when they did not match: never tried twice.
    failed: HashSet<(usize, usize)>,
}

impl Matching<'_> {
    fn matches(&mut self, parts: &[Part], from: usize) -> bool {
        let key = self.key;
        let rest = key.get(from..).unwrap_or_default();
        let Some((first, others)) = parts.split_first() else { return rest.is_empty() };
        let slashes = match first {
            Part::Literal(text) => {
                return rest.starts_with(text.as_str()) && self.matches(others, from + text.len());
            }
            Part::Placeholder { slashes, .. } => *slashes,
        };
        if self.failed.contains(&(parts.len(), from)) {
            return false;
        }
        for (at, character) in rest.char_indices().take_while(|(_, character)| slashes || *character != '/') {
            let end = from + at + character.len_utf8();
            self.matched.push(from..end);
            if self.matches(others, end) {
                return true;
            }
            self.matched.pop();
        }
        self.failed.insert((parts.len(), from));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pattern: &str, template: &str, key: &str) -> Option<String> {
        let pattern = Pattern::parse(pattern).unwrap();
        let template = Template::parse(template, &pattern).unwrap();
        pattern.captures(key).map(|captures| template.fill(&captures))
    }

    #[test]
    fn placeholders_match_within_a_folder() {
        let pattern = "uploads/{job_id}/chunks/{name}.pdf";
        let job = |key| filled(pattern, "{job_id} {name}", key);
        assert_eq!(job("uploads/job-123/chunks/chunk_001.pdf").as_deref(), Some("job-123 chunk_001"));
        assert_eq!(job("uploads/é/chunks/a.pdf.pdf").as_deref(), Some("é a.pdf"));
        for other in [
            "uploads/job-123/original.pdf",
            "uploads/job-123/output_autotag/COMPLIANT_chunk_001.pdf",
            "uploads/a/b/chunks/c.pdf",
            "uploads//chunks/c.pdf",
            "uploads/a/chunks/.pdf",
            "uploads/a/chunks/b.pdf ",
            "x/uploads/a/chunks/b.pdf",
            "",
        ] {
            assert_eq!(job(other), None, "{other}");
        }
    }

    #[test]
    fn starred_placeholders_match_folders_and_the_first_is_shortest() {
        assert_eq!(filled("{*path}", "{path}", "a/b/c").as_deref(), Some("a/b/c"));
        assert_eq!(filled("{*path}/{name}.pdf", "{path}|{name}", "a/b/c.pdf").as_deref(), Some("a/b|c"));
        assert_eq!(filled("{a}-{b}", "{a}|{b}", "1-2-3").as_deref(), Some("1|2-3"));
        assert_eq!(filled("{*a}-{b}", "{a}|{b}", "x-y/z-w-v").as_deref(), Some("x-y/z|w-v"));
    }

    #[test]
    fn keys_that_nearly_match_are_answered_soon() {
        let pattern = "{*a}a{*b}a{*c}a{*d}a{*e}a{*f}a{*g}a{*h}b";
        assert_eq!(filled(pattern, "{a}", &"a".repeat(1_024)), None);
    }

    #[test]
    fn errors_point_at_the_part() {
        let pattern = |text| Pattern::parse(text).map(drop).unwrap_err();
        for (text, at, message) in [
            ("", 0..0, "it is empty"),
            ("a/{b", 2..4, "`{` begins a placeholder that has no `}`"),
            ("a}b", 1..2, "`}` ends no placeholder; write placeholders like `{name}`"),
            ("a{}", 1..3, "a placeholder's name has letters, digits and `_`, as in `{job_id}`"),
            ("{a b}", 0..5, "a placeholder's name has letters, digits and `_`, as in `{job_id}`"),
            ("{a}{b}", 3..6, "`{b}` follows another placeholder; put a character between them"),
            ("{a}/{a}", 4..7, "`{a}` occurs twice; give each placeholder its own name"),
            ("{a}.{b}.{c}.{d}.{e}.{f}.{g}.{h}.{i}", 32..35, "a pattern has at most 8 placeholders"),
        ] {
            assert_eq!(pattern(text), PatternError { at, message: message.to_owned() }, "{text}");
        }
        let known = Pattern::parse("{job_id}/{*name}").unwrap();
        let template = |text| Template::parse(text, &known).map(drop).unwrap_err().message;
        assert_eq!(template("{job}.pdf"), "the pattern has no `{job}`; it has job_id, name");
        assert_eq!(template("{*name}"), "write it `{name}` here, without the `*`");
    }
}
