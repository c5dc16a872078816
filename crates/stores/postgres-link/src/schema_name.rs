//! The name of the schema of the tables: checked once, so that statements can contain it unquoted.

/// A lower-case identifier that needs no quotes. Postgres cuts longer names off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaName(String);

const BYTES_MAX: usize = 63;

impl SchemaName {
    /// The name, if it can stand in a statement without quotes; otherwise why not.
    pub fn new(text: &str) -> Result<Self, String> {
        let begins = text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !begins || !text.chars().all(allowed) || text.len() > BYTES_MAX {
            return Err(format!(
                "schema is made of a-z, 0-9 and _, begins with a letter, and has at most {BYTES_MAX} characters"
            ));
        }
        if text.starts_with("pg_") {
            return Err("schemas that begin with pg_ are Postgres's own".to_owned());
        }
        Ok(Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SchemaName {
    fn default() -> Self {
        Self("tollway".to_owned())
    }
}
