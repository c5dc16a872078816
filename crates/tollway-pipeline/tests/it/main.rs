//! Tests of the pipeline's engines.
#![allow(clippy::unwrap_used, clippy::panic)]

mod sqlite_conforms;
mod sqlite_file;
