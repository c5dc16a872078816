//! The config file itself: finding it, reading its sections, and watching it for changes.
//!
//! This crate knows the names of all sections and the meaning of none. Each crate reads its own sections: it implements
//! [`FromConfig`] and takes keys from a [`Section`]. Every mistake goes to the [`ProblemReport`], so that one pass finds all of
//! them. A section that no linked crate reads is skipped; a name that is not in [`SECTIONS`] is a mistake.
//!
//! ```
//! use std::path::Path;
//! use tollway_config::{FromConfig, Section, parse};
//!
//! struct Url(Option<String>);
//!
//! impl FromConfig for Url {
//!     fn read(root: &mut Section<'_>) -> Self {
//!         let Some(mut store) = root.section("store") else { return Self(None) };
//!         let url = store.string("url", "memory:").map(|url| (*url.get_ref()).to_owned());
//!         store.finish(); // Reports every key that was not taken.
//!         Self(url)
//!     }
//!
//!     fn in_folder(&mut self, _: &Path) {}
//! }
//!
//! assert_eq!(parse::<Url>("[store]\nurl = 'memory:'\n[server]\nworkers = 2")?.0.as_deref(), Some("memory:"));
//! let error = parse::<Url>("[store]\nurll = 'memory:'").map(|_| ()).unwrap_err();
//! assert_eq!((error.line(), error.column(), error.word()), (Some(2), Some(1), "urll"));
//! assert_eq!(error.to_string(), r#"line 2, column 1: "urll" is not a key of [store]; did you mean "url"?
//!   2 | urll = 'memory:'
//!     | ^^^^"#);
//! # Ok::<(), tollway_config::ConfigError>(())
//! ```
//!
//! Where to look: `file` finds and reads the config, `include` follows its files, `merge` makes one table of theirs, `section` walks its tables, `report` collects problems, `error` and
//! `excerpt` show them, `suggest` guesses what was meant, `secrets` knows which values
//! are not shown, `secret_source` reads those that are kept elsewhere, `watch` detects changes, `sections` lists the names.

mod error;
mod excerpt;
mod file;
mod include;
mod merge;
mod millionths;
pub mod private_file;
mod report;
mod secret_source;
mod secrets;
mod section;
mod sections;
pub mod suggest;
mod watch;

pub use error::{ConfigError, ConfigProblem, PROBLEMS_MAX};
pub use file::{CONFIG_BYTES_MAX, CONFIG_FILE, CONFIG_VARIABLE, ConfigFile, find_path, load_earlier, parse};
pub use include::CONFIG_FILES_MAX;
pub use millionths::Millionths;
pub use report::ProblemReport;
pub use secret_source::SecretSource;
pub use secrets::names_a_secret;
pub use section::{Section, type_words};
pub use sections::{FromConfig, SECTIONS};
pub use watch::{ConfigWatch, WATCH_INTERVAL};

/// A TOML value of a [`Section`], with its position.
pub use toml::Spanned;
pub use toml::de::{DeInteger, DeValue};
