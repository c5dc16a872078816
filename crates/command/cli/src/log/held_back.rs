//! Store errors of a short command are held back until its end: it usually fails with the same one, which is then said once.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Where the limiter logs that its store failed: this module and those in it.
const OUTAGE: &str = "tollway::outage";

/// Its line for a first failure. Later ones say more than the error.
const DID_NOT_DECIDE: &str = "the store did not decide";

/// A short command asks its store a few times. What is beyond is written at once.
const HELD_MAX: usize = 8;

/// Lines with the error that each of them tells; none if nothing is held back.
static HELD: Mutex<Option<Vec<(String, String)>>> = Mutex::new(None);

/// Holds back from now on.
pub(super) fn begin() {
    *HELD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
}

/// Holds a line back that tells this error. False: it is to be written now.
pub(crate) fn hold_back(line: &str, error: &str) -> bool {
    match &mut *HELD.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(held) if held.len() < HELD_MAX => {
            held.push((line.to_owned(), error.to_owned()));
            true
        }
        _ => false,
    }
}

/// The lines to write at the command's end: each error once, without that of the message that it ends with.
pub(crate) fn take_held(last: Option<&str>) -> Vec<String> {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
    let mut said: Vec<String> = last.map(str::to_owned).into_iter().collect();
    let mut lines = Vec::new();
    for (line, error) in held {
        if !said.iter().any(|text| text.contains(&error)) {
            said.push(error);
            lines.push(line);
        }
    }
    lines
}

/// Holds the limiter's line for a first failure back.
pub(super) struct HoldBack;

impl<S: Subscriber> Layer<S> for HoldBack {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        if !event.metadata().target().starts_with(OUTAGE) {
            return true;
        }
        let mut read = Fields::default();
        event.record(&mut read);
        read.message != DID_NOT_DECIDE
            || !hold_back(&format!("{}: {}", read.message, read.error), &read.error)
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    error: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.error = format!("{value:?}"),
            _ => {}
        }
    }
}
