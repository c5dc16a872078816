//! `tollway provision`: shows what a config needs on AWS and what is missing, and makes it.
//!
//! `wanted` reads the config, `aws` runs the command, `table` and `parameter` look for one kind of thing and make it,
//! `roles` lists the permissions, `report` writes the answer, `error` says why AWS refused.

#[cfg(feature = "aws")]
mod aws;
#[cfg(feature = "aws")]
mod error;
#[cfg(feature = "aws")]
mod parameter;
#[cfg(feature = "aws")]
mod report;
#[cfg(feature = "aws")]
mod roles;
#[cfg(feature = "aws")]
pub(crate) mod table;
#[cfg(feature = "aws")]
mod wanted;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Make what the config needs in the cloud: tables, parameters, and what roles must be allowed
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    place: Place,
}

#[derive(Debug, clap::Subcommand)]
enum Place {
    Aws(AwsArguments),
}

/// On AWS: the store's table in DynamoDB, and the parameters in Systems Manager that policies name as their source
///
/// Looks at what is there, and shows what is missing. Nothing is made without --apply, and nothing that is there is changed
/// but to let old items of a table vanish. Applying twice changes nothing the second time. Region and credentials are found
/// as every AWS tool finds them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway provision aws                    what is there, what is missing, and the IAM policies
  tollway provision aws --apply            makes what is missing
  tollway provision aws --json | jq .iam.worker > worker-policy.json")]
struct AwsArguments {
    /// Show what is there and what would be made [this is the default]
    #[arg(long, conflicts_with = "apply")]
    plan: bool,
    /// Make what is missing
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
    Err(Failure::new(Exit::CONFIG, "this build knows nothing of AWS")
        .advise("build it with `--features aws`"))
}
