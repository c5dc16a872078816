//! What Tollway's parts on AWS share: connections to its services, amounts in its parameter store, and a check of this
//! process's clock.
//!
//! The SDK never retries here: only the caller knows whether a second attempt may count twice, and how long to wait.

mod causes;
mod connect;
mod date;
mod parameter;

pub use causes::{lacks_credentials, with_causes};
pub use connect::{Access, Connect, NoRegion, check_region, connect};
pub use date::{CLOCK_ERROR_MAX, ClockCheck, ClockOff, SystemClock};
pub use parameter::{
    PARAMETER_DEFAULT, PARAMETER_VARIABLE, ParameterAddress, ParameterAddressError, ParameterError,
    Parameters,
};
