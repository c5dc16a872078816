//! Sends metrics to AWS CloudWatch: the samples that Prometheus reads, by the names and dimensions of CloudWatch.
//!
//! There are two ways. `emf` writes lines of JSON to standard output, which Lambda and the log drivers of ECS turn into
//! metrics; it needs no SDK and no permission. `put` calls `PutMetricData`; it needs the feature `aws`.
//!
//! Where to look: `config` is the section `[cloudwatch]`, `data` turns samples into what happened since the last look, `emf`
//! writes lines, `put` calls CloudWatch, `publisher` is all of it together.

mod config;
mod data;
mod emf;
mod publisher;
#[cfg(feature = "aws")]
mod put;

pub use config::{CloudWatchConfig, Delivery, NAMESPACE_DEFAULT, read};
pub use data::{Datum, Series, Unit, dimension_name, metric_name, pascal_case};
pub use emf::lines;
pub use publisher::{PublishError, Publisher};
