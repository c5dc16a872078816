//! Responses of vendors, in files and at random.

mod arbitrary;
mod golden;
mod hook;
mod usage;
