//! What Tollway's parts on AWS share: connections to its services, amounts in its parameter store, a check of this process's
//! clock, and advice on errors.
//!
//! The SDK never retries here: only the caller knows whether a second attempt may count twice, and how long to wait.

mod advice;
mod causes;
mod connect;
mod date;
mod parameter;

pub use advice::{
    ADVICE_WORKER_RIGHTS, advice_on_credentials, advice_without_credentials, lacks_right, place_of,
};
pub use aws_config::SdkConfig;
pub use causes::{lacks_credentials, with_causes};
pub use connect::{Access, Connect, NoRegion, check_region, connect};
pub use date::{CLOCK_ERROR_MAX, ClockCheck, ClockOff, SystemClock};
pub use parameter::{
    PARAMETER_DEFAULT, PARAMETER_VARIABLE, ParameterAddress, ParameterAddressError, ParameterError,
    Parameters,
};
