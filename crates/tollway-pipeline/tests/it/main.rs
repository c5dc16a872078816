//! Tests of the pipeline's engines.

mod sqlite_conforms;
mod sqlite_file;
