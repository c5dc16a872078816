//! The page: one document for all views, and the files that it loads. Neither contains data: that comes from `/v1/live` and
//! `/v1/view/...`, with a token where one is needed.

mod assets;
mod document;
mod limits;
mod views;

pub(crate) use assets::{Asset, find};
