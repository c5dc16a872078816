//! The policies in force: by name, in a caller's hands, changed at run time, and their usage.

pub(crate) mod adhoc;
pub(crate) mod handle;
mod overview;
pub(crate) mod registry;
pub(crate) mod settings;
pub(crate) mod usage;
