//! Builds a Tollway config from the limits in another system's file.
//!
//! ```
//! use tollway_import::{SourceFile, envoy};
//!
//! let yaml = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: { unit: minute, requests_per_unit: 20 }\n";
//! let imported = envoy::import(&[SourceFile { name: "shop.yaml", bytes: yaml.as_bytes() }])?;
//!
//! assert!(imported.config.contains("limits = [\"20 requests / minute\"]"));
//! assert!(imported.notes.is_empty(), "every word of the file has a counterpart");
//! # Ok::<(), tollway_import::ImportError>(())
//! ```
//!
//! Text in, text out: nothing is read from disk and nothing is printed. Every config that is returned was parsed by
//! Tollway. A file has at most [`FILE_BYTES_MAX`] bytes.
//!
//! | module | what it does |
//! |---|---|
//! | [`envoy`] | files of Envoy's rate limit service: `rules` says what they mean, `config` writes it |
//! | [`obp`] | properties of OBP-API: `properties` reads Java's format, `settings` says what they mean, `config` writes it |
//! | `source` | a file to import, what comes of it, and why it cannot be imported |

#![forbid(unsafe_code)]

pub mod envoy;
pub mod obp;
mod source;

pub use source::{FILE_BYTES_MAX, ImportError, Imported, SourceFile};
