//! `tollway provision`: lists the AWS resources that a config needs, and creates missing ones.
//!
//! `resources` reads the config, `aws` runs the command, `table` and `parameter` find and create one kind of resource,
//! `roles` lists the permissions, `report` writes the result, `error` explains failures of AWS.

#[cfg(feature = "aws")]
mod aws;
#[cfg(feature = "aws")]
mod error;
#[cfg(feature = "aws")]
mod parameter;
#[cfg(feature = "aws")]
mod report;
#[cfg(feature = "aws")]
mod resources;
#[cfg(feature = "aws")]
mod roles;
#[cfg(feature = "aws")]
pub(crate) mod table;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Create the cloud resources that the config needs
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    place: Place,
}

#[derive(Debug, clap::Subcommand)]
enum Place {
    Aws(AwsArguments),
}

/// Create DynamoDB tables and Systems Manager parameters, and print IAM policies
///
/// Lists the store's table and the parameters that policies use as their source, and which of them are missing. Creates
/// nothing without --apply. Existing resources stay unchanged, except that TTL is turned on for a table. A second --apply
/// changes nothing. Region and credentials come from the usual AWS settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway provision aws                    existing and missing resources, and the IAM policies
  tollway provision aws --apply            create what is missing
  tollway provision aws --json | jq .iam.worker > worker-policy.json")]
struct AwsArguments {
    /// Show existing and missing resources (the default)
    #[arg(long, conflicts_with = "apply")]
    plan: bool,
    /// Create what is missing
    #[arg(long)]
    apply: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let Place::Aws(AwsArguments { apply, .. }) = &arguments.place;
    on_aws(*apply, context)
}

#[cfg(feature = "aws")]
fn on_aws(apply: bool, context: &Context) -> Result<Exit, Failure> {
    aws::run(apply, context)
}

#[cfg(not(feature = "aws"))]
fn on_aws(_: bool, _: &Context) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::CONFIG, "this build has no AWS support").advise("build it with `--features aws`"))
}
