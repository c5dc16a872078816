//! The dashboard's first screen in a terminal: limits, apis, pipelines and alarms, a second old at most.
//!
//! - `stream` reads the events of `GET /v1/live`, `screen` is what is known and what the reader has chosen, `order` sorts rows
//! - `view` draws it into a frame of any size, `keys` changes what is chosen
//! - `terminal` takes the terminal and gives it back, whatever ends the program

mod keys;
mod order;
mod screen;
mod stream;
mod terminal;
mod view;

pub use screen::Screen;
pub use stream::{Event, EventReader, StreamError};
pub use terminal::{Update, run};
pub use view::{Palette, draw, frame_text};
