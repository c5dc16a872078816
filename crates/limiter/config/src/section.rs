//! One table of the file: readers take its keys by name, and keys that no reader took are errors.

use std::ops::Range;

use tollway_core::{Span, WhenStoreFails, read_span};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::include::INCLUDE;
use crate::millionths::Millionths;
use crate::report::Report;
use crate::sections::{SECTIONS, SECTIONS_TO_COME};
use crate::suggest;

const WHEN_STORE_FAILS: [(&str, WhenStoreFails); 3] =
    [("local", WhenStoreFails::Local), ("open", WhenStoreFails::Open), ("closed", WhenStoreFails::Closed)];

/// A table that is being read. Every method that takes a key reports a wrong type itself and then returns `None`.
#[must_use = "finish it, so that unknown keys are found"]
pub struct Section<'a> {
    report: &'a Report<'a>,
    /// Its keys from the root, as in `policies.adobe`; empty for the root.
    path: String,
    at: Range<usize>,
    table: &'a DeTable<'a>,
    known: Vec<&'static str>,
    to_come: Vec<&'static str>,
    /// Required keys that are missing, each with an example.
    missing: Vec<(&'static str, &'static str)>,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub(crate) fn root(report: &'a Report<'a>, table: &'a DeTable<'a>) -> Self {
        Self::new(report, String::new(), 0..0, table)
    }

    /// A table at this position; errors name it `path`.
    pub fn new(report: &'a Report<'a>, path: String, at: Range<usize>, table: &'a DeTable<'a>) -> Self {
        Self { report, path, at, table, known: Vec::new(), to_come: Vec::new(), missing: Vec::new() }
    }

    /// The report that mistakes go to.
    pub fn report(&self) -> &'a Report<'a> {
        self.report
    }

    /// The name in errors.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Reports a problem with the value of a key, or with the section if it has no such key.
    pub fn problem(&self, key: &str, message: impl Into<String>, advice: &str) {
        match self.table.get(key) {
            Some(value) => match value.get_ref().as_str() {
                Some(text) => self.report.problem_with(&Spanned::new(value.span(), text), message, advice),
                None => self.report.problem(value.span(), message, advice),
            },
            None => self.report.problem(self.at.clone(), message, advice),
        }
    }

    /// A value of any type.
    pub fn value(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.table.get(key)
    }

    /// A string; `example` is shown for another type.
    pub fn string(&mut self, key: &'static str, example: &str) -> Option<Spanned<&'a str>> {
        let value = self.value(key)?;
        match value.get_ref().as_str() {
            Some(text) => Some(Spanned::new(value.span(), text)),
            None => self.wrong_type(key, value, "a string", &format!("{example:?}")),
        }
    }

    /// True or false.
    pub fn bool(&mut self, key: &'static str) -> Option<bool> {
        let value = self.value(key)?;
        match value.get_ref().as_bool() {
            Some(yes) => Some(yes),
            None => self.wrong_type(key, value, "true or false", "true"),
        }
    }

    /// A whole number from 1 to `most`.
    pub fn count(&mut self, key: &'static str, most: usize, example: &str) -> Option<usize> {
        let value = self.value(key)?;
        let DeValue::Integer(number) = value.get_ref() else {
            return self.wrong_type(key, value, "a whole number", example);
        };
        let count = usize::from_str_radix(number.as_str(), number.radix()).ok();
        let count = count.filter(|count| (1..=most).contains(count));
        if count.is_none() {
            let message = format!("`{key}` must be a whole number from 1 to {most}");
            self.problem(key, message, &format!("write it like `{key} = {example}`"));
        }
        count
    }

    /// A required number above 0, whole or with a fraction, rounded to the nearest millionth.
    pub fn millionths(
        &mut self,
        key: &'static str,
        most: Millionths,
        example: &'static str,
    ) -> Option<Millionths> {
        let value = self.required(key, example)?;
        let number = match value.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            // A number too long to parse is also too large.
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
            }
            _ => return self.wrong_type(key, value, "a number", example),
        };
        let kept = number.and_then(|number| Millionths::nearest(number, most));
        if kept.is_none() {
            let message = format!("`{key}` must be a number from {} to {most}", Millionths::LEAST);
            self.problem(key, message, &format!("write it like `{key} = {example}`"));
        }
        kept
    }

    /// A duration.
    pub fn span(&mut self, key: &'static str, example: &str) -> Option<Span> {
        let text = self.string(key, example)?;
        read_span(text.get_ref()).map_err(|message| self.problem(key, message, "")).ok()
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&mut self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let (example, _) = words.first()?;
        let text = self.string(key, example)?;
        if let Some((_, choice)) = words.iter().find(|(word, _)| word == text.get_ref()) {
            return Some(*choice);
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let message = format!("{:?} is not a value of `{key}`", text.get_ref());
        self.problem(key, message, &suggest::advice(text.get_ref(), &known));
        None
    }

    /// `when_store_fails`, which several sections have.
    pub fn when_store_fails(&mut self) -> Option<WhenStoreFails> {
        self.choice("when_store_fails", &WHEN_STORE_FAILS)
    }

    /// A list of values of any type.
    pub fn list(&mut self, key: &'static str, example: &str) -> Option<&'a [Spanned<DeValue<'a>>]> {
        let value = self.value(key)?;
        match value.get_ref().as_array() {
            Some(array) => Some(array.as_ref()),
            None => self.wrong_type(key, value, "a list", example),
        }
    }

    /// A table under this one.
    pub fn section(&mut self, key: &'static str) -> Option<Section<'a>> {
        self.known.push(key);
        let (name, value) = self.table.get_key_value(key)?;
        self.below(name, value)
    }

    /// The tables under a key that names them freely, as in `[policies.NAME]`.
    pub fn named_sections(&mut self, key: &'static str) -> Vec<(Spanned<&'a str>, Section<'a>)> {
        let Some(all) = self.section(key) else { return Vec::new() };
        let named = |(name, value): (&'a Spanned<_>, &'a Spanned<_>)| {
            Some((Spanned::new(name.span(), AsRef::<str>::as_ref(name.get_ref())), all.below(name, value)?))
        };
        all.table.iter().filter_map(named).collect()
    }

    /// The names of those tables, including tables with mistakes in them.
    pub fn names(&self, key: &str) -> Vec<Spanned<&'a str>> {
        let tables = self.table.get(key).and_then(|value| value.get_ref().as_table());
        let named = |(name, value): (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>)| {
            value.get_ref().is_table().then(|| Spanned::new(name.span(), name.get_ref().as_ref()))
        };
        tables.into_iter().flatten().filter_map(named).collect()
    }

    /// Reports a key that the format has but this version does not support.
    pub fn not_yet(&mut self, key: &'static str) {
        self.to_come.push(key);
        if let Some((name, _)) = self.table.get_key_value(key) {
            let shown = if self.path.is_empty() { format!("[{key}]") } else { format!("`{key}`") };
            let advice = "remove it";
            self.report.problem(name.span(), format!("{shown} is not supported in this version"), advice);
        }
    }

    /// A required value of any type; `example` is shown if it is missing.
    pub fn required(&mut self, key: &'static str, example: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        let value = self.value(key);
        if value.is_none() {
            self.missing.push((key, example));
        }
        value
    }

    /// Whether it has this key.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Whether it has a key that no reader has taken.
    pub fn has_unknown(&self) -> bool {
        self.unknown().next().is_some()
    }

    /// Reports every unknown section, whether or not its crate is linked.
    pub(crate) fn finish_file(mut self) {
        debug_assert!(
            self.known.iter().all(|key| SECTIONS.contains(key)),
            "SECTIONS names all that are read"
        );
        self.known = SECTIONS.into_iter().chain([INCLUDE]).collect();
        for key in SECTIONS_TO_COME {
            self.not_yet(key);
        }
        self.finish();
    }

    /// Reports every key that no reader took, with the nearest known key, and every missing key.
    pub fn finish(self) {
        let mut misspelt = Vec::new();
        for name in self.unknown() {
            let key: &str = name.get_ref();
            let what = if self.path.is_empty() { "section" } else { "key" };
            let message = format!("{key:?} is not a {what} of {}", self.title());
            self.report.problem(name.span(), message, suggest::advice(key, &self.known));
            misspelt.extend(suggest::meant(key, &self.known));
        }
        // A misspelt key is not missing.
        for (key, example) in self.missing.iter().filter(|(key, _)| !misspelt.contains(key)) {
            let advice = format!("write one like `{key} = {example}`");
            self.report.problem(self.at.clone(), format!("{} has no `{key}`", self.title()), advice);
        }
    }

    fn unknown(&self) -> impl Iterator<Item = &'a Spanned<DeString<'a>>> {
        let taken = |key: &str| self.known.contains(&key) || self.to_come.contains(&key);
        self.table.keys().filter(move |name| !taken(name.get_ref()))
    }

    fn title(&self) -> String {
        if self.path.is_empty() { "the file".to_owned() } else { format!("[{}]", self.path) }
    }

    fn below(&self, name: &'a Spanned<DeString<'a>>, value: &'a Spanned<DeValue<'a>>) -> Option<Section<'a>> {
        let dot = if self.path.is_empty() { "" } else { "." };
        let path = format!("{}{dot}{}", self.path, name.get_ref());
        match value.get_ref().as_table() {
            Some(table) => Some(Section::new(self.report, path, name.span(), table)),
            None => {
                let message = format!("[{path}] must be a section, not {}", type_words(value.get_ref()));
                self.report.problem(value.span(), message, "write its name in brackets and its keys below");
                None
            }
        }
    }

    /// Always `None`, in place of the missing value.
    fn wrong_type<T>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        wanted: &str,
        example: &str,
    ) -> Option<T> {
        let message = format!("`{key}` must be {wanted}, not {}", type_words(value.get_ref()));
        self.report.problem(value.span(), message, format!("write it like `{key} = {example}`"));
        None
    }
}

/// The type of a value, for errors.
pub fn type_words(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
