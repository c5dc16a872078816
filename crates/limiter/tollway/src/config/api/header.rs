//! `headers`: fixed request headers of an api; secrets stay in the environment.

use std::{env, fmt};

use tollway_config::{DeValue, Section, Spanned, names_a_secret, type_words};

/// The most headers of one api.
pub(super) const HEADERS_MAX: usize = 32;

/// Headers that the HTTP client computes.
const COMPUTED: [&str; 5] = ["connection", "content-length", "host", "te", "transfer-encoding"];

const ADVICE: &str = "write a string, or { env = \"NOTION_TOKEN\", prefix = \"Bearer \" }";

/// A header that every request to an api carries.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiHeader {
    name: String,
    source: HeaderSource,
}

/// Where the value of a header comes from.
#[derive(Clone, PartialEq, Eq)]
enum HeaderSource {
    Literal(String),
    Variable { variable: String, prefix: String },
}

/// A header's variable cannot be used.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the header {header} needs the environment variable {variable}, which {problem}")]
pub struct ApiHeaderError {
    header: String,
    variable: String,
    problem: &'static str,
}

tollway_core::debug_as_display!(ApiHeaderError);

impl ApiHeader {
    /// Its name, in lower case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The environment variable that holds its value, if one does.
    pub fn variable(&self) -> Option<&str> {
        match &self.source {
            HeaderSource::Literal(_) => None,
            HeaderSource::Variable { variable, .. } => Some(variable),
        }
    }

    /// What is put before the variable's value: `Bearer `.
    pub fn prefix(&self) -> &str {
        match &self.source {
            HeaderSource::Literal(_) => "",
            HeaderSource::Variable { prefix, .. } => prefix,
        }
    }

    /// The value in the config, unless a variable holds it.
    pub fn literal(&self) -> Option<&str> {
        match &self.source {
            HeaderSource::Literal(value) => Some(value),
            HeaderSource::Variable { .. } => None,
        }
    }

    /// Whether the config holds the value of a header that is usually a secret.
    pub fn is_literal_secret(&self) -> bool {
        self.literal().is_some() && names_a_secret(&self.name)
    }

    /// Whether it is a credential at the vendor: its value is in a variable, or its name is usually that of a secret.
    pub fn holds_credential(&self) -> bool {
        self.variable().is_some() || self.is_literal_secret()
    }

    /// The value to send. Reads the variable, so that a rotated secret needs no other config.
    pub fn value(&self) -> Result<String, ApiHeaderError> {
        let HeaderSource::Variable { variable, prefix } = &self.source else {
            return Ok(self.literal().unwrap_or_default().to_owned());
        };
        let unusable =
            |problem| ApiHeaderError { header: self.name.clone(), variable: variable.clone(), problem };
        let value = env::var(variable).map_err(|error| match error {
            env::VarError::NotPresent => unusable("is not set"),
            env::VarError::NotUnicode(_) => unusable("is not UTF-8"),
        })?;
        if value.trim().is_empty() {
            return Err(unusable("is empty"));
        }
        if !is_header_value(value.trim()) {
            return Err(unusable("has a character that no header may have"));
        }
        Ok(format!("{prefix}{}", value.trim()))
    }
}

impl fmt::Debug for ApiHeader {
    /// Without values that are usually secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            HeaderSource::Variable { variable, prefix } => write!(f, "{}: {prefix}${variable}", self.name),
            HeaderSource::Literal(_) if self.is_literal_secret() => write!(f, "{}: ***", self.name),
            HeaderSource::Literal(value) => write!(f, "{}: {value}", self.name),
        }
    }
}

/// The headers of the section, sorted by name; what is wrong with them is in the report.
pub(super) fn read(section: &mut Section<'_>) -> Option<Vec<ApiHeader>> {
    let value = section.value("headers")?;
    let Some(table) = value.get_ref().as_table() else {
        let message = format!("`headers` must be a table, not {}", type_words(value.get_ref()));
        section.report().problem(value.span(), message, "write it like { accept = \"application/json\" }");
        return None;
    };
    if table.len() > HEADERS_MAX {
        let message = format!("[{}] has more than {HEADERS_MAX} headers", section.path());
        section.report().problem(value.span(), message, "let the program set those that differ per call");
        return None;
    }
    let path = format!("{}.headers", section.path());
    let read: Vec<_> = table
        .iter()
        .map(|(name, value)| {
            let name = Spanned::new(name.span(), AsRef::<str>::as_ref(name.get_ref()));
            read_one(section, &path, &name, value)
        })
        .collect();
    let mut headers: Vec<ApiHeader> = read.into_iter().collect::<Option<_>>()?;
    headers.sort_by(|one, other| one.name.cmp(&other.name));
    let twice = headers.iter().zip(headers.iter().skip(1)).find(|(one, next)| one.name == next.name);
    if let Some((header, _)) = twice {
        let message = format!("the header {} is there twice", header.name);
        section.report().problem(value.span(), message, "names of headers ignore case; leave one out");
        return None;
    }
    Some(headers)
}

/// Problems point at the name: what they point at is shown, and a value may be a secret.
fn read_one(
    section: &Section<'_>,
    path: &str,
    name: &Spanned<&str>,
    value: &Spanned<DeValue<'_>>,
) -> Option<ApiHeader> {
    let report = section.report();
    let header = name.get_ref().to_ascii_lowercase();
    if header.is_empty() || !header.bytes().all(is_token) {
        let message = format!("{:?} is not the name of a header", name.get_ref());
        report.problem(name.span(), message, "a name is made of letters, digits and `-`");
        return None;
    }
    if COMPUTED.contains(&header.as_str()) {
        report.problem(name.span(), format!("the HTTP client sets {header} itself"), "leave it out");
        return None;
    }
    let source = match value.get_ref() {
        DeValue::String(text) if is_header_value(text) => HeaderSource::Literal(text.to_string()),
        DeValue::String(_) => {
            let message = format!("the value of {header} has a character that no header may have");
            report.problem(name.span(), message, "use visible ASCII characters and spaces");
            return None;
        }
        DeValue::Table(table) => {
            let mut table = Section::new(report, format!("{path}.{header}"), name.span(), table);
            let source = read_variable(&mut table);
            table.finish();
            source?
        }
        other => {
            let message = format!("a header is a string or a table, not {}", type_words(other));
            report.problem(name.span(), message, ADVICE);
            return None;
        }
    };
    Some(ApiHeader { name: header, source })
}

fn read_variable(table: &mut Section<'_>) -> Option<HeaderSource> {
    let prefix = table.string("prefix", "Bearer ").map(|prefix| (*prefix.get_ref()).to_owned());
    table.required("env", "\"NOTION_TOKEN\"")?;
    let variable = *table.string("env", "NOTION_TOKEN")?.get_ref();
    if variable.is_empty() || variable.contains(['=', '\0']) {
        table.problem("env", "that cannot be the name of a variable", "name one like \"NOTION_TOKEN\"");
        return None;
    }
    if prefix.as_deref().is_some_and(|prefix| !is_header_value(prefix)) {
        table.problem("prefix", "the prefix has a character that no header may have", "use ASCII");
        return None;
    }
    Some(HeaderSource::Variable { variable: variable.to_owned(), prefix: prefix.unwrap_or_default() })
}

/// A character of a header's name, as RFC 9110 has it.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_header_value(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}
