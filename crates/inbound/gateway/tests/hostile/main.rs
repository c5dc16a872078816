//! Hostile requests: nothing reaches an address that is not registered, nothing panics, and no log has a credential. A program
//! of its own, because it reads everything that the process logs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod advisories;
mod log;
mod mangled;
mod messages;
#[allow(dead_code, reason = "shared with the other tests of the gateway")]
#[path = "../it/running.rs"]
mod running;
#[allow(dead_code, reason = "shared with the other tests of the gateway")]
#[path = "../it/vendor.rs"]
mod vendor;

use running::{Running, api, gateway};
use vendor::RecordingVendor;

/// The config's credential. Cargo sets this variable for every test.
const CREDENTIAL: &str = env!("CARGO_MANIFEST_DIR");

/// A caller's own credential.
const CALLERS: &str = "sk-caller-0123456789";

const FREE: &str =
    "rate = \"off\"\nlimits = [\"100000 / second\"]\nheaders = { x-key = { env = \"CARGO_MANIFEST_DIR\" } }";

/// The vendor that is registered, another address, and a gateway whose log is kept.
async fn fixture() -> (RecordingVendor, RecordingVendor, Running) {
    log::keep();
    let (vendor, other) = (RecordingVendor::start().await, RecordingVendor::start().await);
    let gateway = gateway(&api(vendor.address, FREE)).await;
    (vendor, other, gateway)
}
