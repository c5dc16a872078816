//! The command as a shell sees it, one module per subject. One binary, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod all_commands;
mod api;
#[cfg(feature = "client")]
mod api_try;
#[cfg(all(feature = "aws", feature = "pipeline"))]
mod aws_pipeline;
#[cfg(feature = "pipeline")]
mod clock_behind;
mod container;
mod dashboard;
#[cfg(feature = "pipeline")]
mod demo;
#[cfg(feature = "pipeline")]
mod deployment;
mod doctor;
#[cfg(feature = "pipeline")]
mod file_modes;
#[cfg(feature = "gateway")]
mod gateway;
#[cfg(feature = "pipeline")]
mod handler_proxy;
mod home;
mod import;
mod import_obp;
mod incidents;
mod init;
#[cfg(feature = "aws")]
mod kept_amounts;
mod passwords;
#[cfg(feature = "pipeline")]
mod pipeline_operate;
#[cfg(feature = "pipeline")]
mod pipeline_outage;
#[cfg(feature = "pipeline")]
mod pipeline_run;
mod plan;
mod policy;
#[cfg(feature = "aws")]
mod provision;
mod run;
mod serve;
mod simulate;
mod simulate_input;
mod take;
mod terminal;
#[cfg(feature = "top")]
mod top;
mod usage_subjects;
#[cfg(feature = "vendor")]
mod vendor;
mod width;
