//! What Tollway's parts on AWS share: a way to its services, and a check of this process's clock.
//!
//! The SDK never retries here. Whoever calls knows whether a second attempt may count twice, and how long its caller
//! waits.

mod causes;
mod connect;
mod date;
mod parameter;
pub mod provision;

pub use connect::{Access, Connect, NoRegion, check_region, connect};
pub use date::{CLOCK_ERROR_MAX, ClockCheck, ClockOff, SystemClock};
pub use parameter::{
    PARAMETER_DEFAULT, PARAMETER_VARIABLE, ParameterAddress, ParameterAddressError, ParameterError,
    Parameters,
};
