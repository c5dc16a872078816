//! Permits as callers hold them: opaque, authenticated, understood by every server that shares the store.

pub(crate) mod fuzz;
mod seal;
mod token;

pub(crate) use seal::Seal;
