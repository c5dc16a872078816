//! What a record is for: an API, a version of it, a bank.

use crate::quote::quote;

/// The longest text of a scope, in bytes.
pub const SCOPE_BYTES_MAX: usize = 255;

/// What a record is for. It distinguishes records; it does not select calls: all records of a consumer count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    api_name: Option<String>,
    api_version: Option<String>,
    bank_id: Option<String>,
}

/// Why a text cannot be part of a scope.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct ScopeError {
    /// The field.
    pub field: &'static str,
    /// The problem.
    pub problem: ScopeProblem,
}

tollway_core::debug_as_display!(ScopeError);

/// What is wrong with a text. The message follows the name of its field.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeProblem {
    /// Present but empty.
    #[error("is empty: leave it out where it does not matter")]
    Empty,
    /// Over the bound.
    #[error("has {0} bytes, more than the {SCOPE_BYTES_MAX} allowed")]
    TooLong(usize),
    /// A control character.
    #[error("is {0}: it contains a control character")]
    Control(String),
}

tollway_core::debug_as_display!(ScopeProblem);

impl Scope {
    /// Not restricted.
    pub const ALL: Self = Self { api_name: None, api_version: None, bank_id: None };

    /// Validates the texts.
    pub fn new(
        api_name: Option<String>,
        api_version: Option<String>,
        bank_id: Option<String>,
    ) -> Result<Self, ScopeError> {
        for (field, text) in [("api_name", &api_name), ("api_version", &api_version), ("bank_id", &bank_id)] {
            if let Some(text) = text {
                check(text).map_err(|problem| ScopeError { field, problem })?;
            }
        }
        Ok(Self { api_name, api_version, bank_id })
    }

    /// The API.
    pub fn api_name(&self) -> Option<&str> {
        self.api_name.as_deref()
    }

    /// The API's version.
    pub fn api_version(&self) -> Option<&str> {
        self.api_version.as_deref()
    }

    /// The bank.
    pub fn bank_id(&self) -> Option<&str> {
        self.bank_id.as_deref()
    }
}

fn check(text: &str) -> Result<(), ScopeProblem> {
    if text.is_empty() {
        Err(ScopeProblem::Empty)
    } else if text.len() > SCOPE_BYTES_MAX {
        Err(ScopeProblem::TooLong(text.len()))
    } else if text.chars().any(char::is_control) {
        Err(ScopeProblem::Control(quote(text)))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_field_of_an_invalid_text() {
        let name = |text: &str| Scope::new(Some(text.to_owned()), None, None).map_err(|e| e.to_string());
        assert_eq!(name("").unwrap_err(), "api_name is empty: leave it out where it does not matter");
        assert_eq!(name(&"x".repeat(256)).unwrap_err(), "api_name has 256 bytes, more than the 255 allowed");
        assert_eq!(name("a\0").unwrap_err(), r#"api_name is "a\0": it contains a control character"#);
        let bank = Scope::new(None, None, Some(String::new())).unwrap_err();
        assert_eq!((bank.field, bank.problem), ("bank_id", ScopeProblem::Empty));
        assert_eq!(name("Konten & Karten").unwrap().api_name(), Some("Konten & Karten"));
    }
}
