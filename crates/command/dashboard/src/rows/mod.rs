//! The limits that this process used: what happened under them in five minutes, and how full they are.
//!
//! `table` reads the counters of every used `policy` and its `limit`s in one pass; `recent` are the five minutes of a figure.
//! `reads` chooses the accounts that are read from the store this second, `show` makes rows of what is known.

mod limit;
mod policy;
mod reads;
mod recent;
mod show;
mod table;

pub(crate) use reads::readings;
pub(crate) use recent::{RECENT_BYTES, STEP};
pub(crate) use show::{Moment, ShownLimit};
pub(crate) use table::{LIMITS_MAX, StepOfLimit, Table};
