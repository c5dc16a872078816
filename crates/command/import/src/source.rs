//! A file to import, the result, and why it cannot be imported.

use tollway::ConfigError;

/// The largest file, in bytes: as large as a config may be, and far larger than any file of limits that people write.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// A file of another system.
#[derive(Clone, Copy, Debug)]
pub struct SourceFile<'f> {
    /// Its name, for messages and for the first line of the config.
    pub name: &'f str,
    /// Its content.
    pub bytes: &'f [u8],
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The text of the config.
    pub config: String,
    /// Notes: what has no counterpart, and other advice.
    pub notes: Vec<String>,
    /// Whether the config has `...` in place of a password.
    pub hides_password: bool,
}

/// Why there is no config. The file is always at fault.
#[derive(thiserror::Error)]
pub enum ImportError {
    /// The file is larger than [`FILE_BYTES_MAX`].
    #[error("{file}: it has more than the {FILE_BYTES_MAX} bytes that are read")]
    TooLarge {
        /// Its name.
        file: String,
    },
    /// The file is not one of that system, or a value in it is wrong.
    #[error("{file}: {problem}")]
    Wrong {
        /// Its name.
        file: String,
        /// What is wrong, with its line where that is known.
        problem: String,
    },
    /// Each limit is valid, but together they make no config: two of them match the same requests, for example.
    #[error("these limits make no config: {0}")]
    NoConfig(#[from] ConfigError),
}

tollway_core::debug_as_display!(ImportError);

impl<'f> SourceFile<'f> {
    /// The content, if it is within its bound.
    pub(crate) fn bounded(&self) -> Result<&'f [u8], ImportError> {
        if self.bytes.len() > FILE_BYTES_MAX {
            return Err(ImportError::TooLarge { file: self.name.to_owned() });
        }
        Ok(self.bytes)
    }

    /// The error that something in this file is wrong.
    pub(crate) fn wrong(&self, problem: impl Into<String>) -> ImportError {
        ImportError::Wrong { file: self.name.to_owned(), problem: problem.into() }
    }
}

/// Text as a TOML string. A JSON string is one, too; if not, because of an invisible character, the check of the config
/// fails.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_over_the_bound_is_refused() {
        let bytes = vec![b'#'; FILE_BYTES_MAX + 1];
        let file = SourceFile { name: "large", bytes: &bytes };
        let refused = file.bounded().unwrap_err().to_string();
        assert_eq!(refused, "large: it has more than the 1048576 bytes that are read");
        let file = SourceFile { name: "fits", bytes: &bytes[1..] };
        assert_eq!(file.bounded().unwrap().len(), FILE_BYTES_MAX);
    }
}
