//! `tollway provision`: lists the AWS resources that a config needs, creates missing ones, and deletes them (`aws`). `grafana` and
//! `alert_rules` print what watches a deployment without AWS, over the metrics in `watched`.

mod alert_rules;
#[cfg(feature = "aws")]
pub(crate) mod aws;
mod grafana;
mod watched;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Create the cloud resources that the config needs; print dashboards and alerts
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    place: Place,
}

#[derive(Debug, clap::Subcommand)]
enum Place {
    Aws(AwsArguments),
    Grafana(grafana::Arguments),
    Prometheus(alert_rules::Arguments),
}

/// Create tables, parameters, queues, alarms and a dashboard on AWS, and print IAM policies
///
/// Lists the resources that the config needs, and which of them are missing: the store's table, the parameters that policies
/// use as their source, the queues of stages that name one and the pipeline's ledger, the topic of incidents, and alarms and a
/// dashboard if metrics go to CloudWatch. Creates nothing without --apply. A second --apply changes nothing; one that failed half way is
/// continued by the next. Region and credentials come from the usual AWS settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway provision aws                    existing and missing resources
  tollway provision aws --apply            create what is missing
  tollway provision aws --cloudformation > tollway.json
  tollway provision aws --iam worker > worker-policy.json
  tollway provision aws --destroy          delete what --apply made, with everything in it
  tollway provision aws --destroy --all tollway    also what was there before, by its name")]
#[command(group(clap::ArgGroup::new("what").args(["plan", "apply", "destroy", "cloudformation", "iam"])))]
pub(crate) struct AwsArguments {
    /// Show existing and missing resources (the default)
    #[arg(long)]
    plan: bool,
    /// Create what is missing
    #[arg(long)]
    apply: bool,
    /// Delete what --apply made, with everything in it. The rest is listed
    #[arg(long)]
    destroy: bool,
    /// With --destroy: also delete the resource of this name, which --apply did not make. Can be repeated
    #[arg(long, value_name = "NAME", requires = "destroy")]
    all: Vec<String>,
    /// Print the resources as a CloudFormation template; asks AWS nothing
    #[arg(long)]
    cloudformation: bool,
    /// Print the smallest IAM policy of a role; asks AWS nothing
    #[arg(long, value_name = "ROLE")]
    iam: Option<Role>,
    /// Let SQS move a message to its dead-letter queue after 3 receives, and not after 10
    #[arg(long)]
    as_documented: bool,
    /// With --destroy: do not ask. Needed where there is no terminal
    #[arg(long, short, requires = "destroy")]
    yes: bool,
}

/// A role that needs permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Role {
    /// A process that takes, and works on jobs
    Worker,
    /// A person who looks at usage and dead letters, and changes limits
    Operator,
    /// What runs `tollway provision aws`
    Provisioner,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    match &arguments.place {
        Place::Aws(arguments) => on_aws(arguments, context),
        Place::Grafana(_) => grafana::run(context),
        Place::Prometheus(_) => alert_rules::run(context),
    }
}

#[cfg(feature = "aws")]
fn on_aws(arguments: &AwsArguments, context: &Context) -> Result<Exit, Failure> {
    aws::run(arguments, context)
}

#[cfg(not(feature = "aws"))]
fn on_aws(arguments: &AwsArguments, _: &Context) -> Result<Exit, Failure> {
    let AwsArguments {
        plan: _,
        apply: _,
        destroy: _,
        all: _,
        cloudformation: _,
        iam: _,
        as_documented: _,
        yes: _,
    } = arguments;
    Err(Failure::new(Exit::CONFIG, "this build has no AWS support").advise("build it with `--features aws`"))
}
