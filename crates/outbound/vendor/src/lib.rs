//! A simulated vendor: an API with rate limits, as a pure model in virtual time, and workers that call it.
//!
//! [`Vendor::decide`] answers one call at a time that is passed in, so the model serves a simulation as well as a server
//! on a real clock. [`run`] lets workers call it through a controller and counts what they got; [`possible`] is what a
//! perfect client would have got. The same seed gives the same run.
//!
//! With the feature `server`, [`server::VendorServer`] answers over HTTP on the machine's clock.

#![forbid(unsafe_code)]

mod figures;
mod headers;
mod limits;
mod perfect;
mod quota;
mod random;
mod random_vendor;
mod ruling;
mod run;
#[cfg(feature = "server")]
pub mod server;
mod store;
mod vendor;

pub use figures::Figures;
pub use headers::{HeaderReset, HeaderStyle, Misleading};
pub use limits::{VendorLimitError, WindowStart};
pub use perfect::possible;
pub use quota::{Quota, Shape, Unit};
pub use random::Random;
pub use random_vendor::RandomVendor;
pub use ruling::{QuotaState, Ruling};
pub use run::{Client, Run, run};
pub use vendor::{Answer, CallCost, Outcome, Terms, Vendor, Voice};
