//! What leaves a process by itself.
//!
//! [`webhook`] sends incidents and alarms to a webhook or a topic of AWS SNS, [`cloudwatch`] sends metrics to AWS CloudWatch. What
//! needs the AWS SDK needs the feature `aws`.

#![forbid(unsafe_code)]

pub mod cloudwatch;
#[cfg(feature = "webhook")]
pub mod webhook;
