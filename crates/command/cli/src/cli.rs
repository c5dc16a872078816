//! The command line: global options and the list of subcommands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tollway::StoreUrl;

#[cfg(feature = "gateway")]
use crate::gateway;
#[cfg(feature = "top")]
use crate::top;
#[cfg(feature = "vendor")]
use crate::vendor;
use crate::{
    api, completions, dashboard, doctor, incidents, init, limit, man, plan, policy, provision, reset, run,
    serve, simulate, take, usage, why,
};
#[cfg(feature = "pipeline")]
use crate::{demo, pipeline};

/// What the command is called.
pub(crate) const NAME: &str = "tollway";

/// Exit codes, for `--help` and the man page.
const EXIT_CODES: &str = "\
Exit codes:
  0    success; take: granted
  1    any other failure; doctor: problems found
  2    invalid arguments
  65   invalid data in an input file
  66   not found: a policy, limit, api, pipeline, stage, job, incident or file that the command names
  69   store unavailable
  75   denied; retry later (run: see --or-exit)
  78   invalid or missing configuration
  126, 127   run: command not executable, not found
  Otherwise run exits with its command's code, or 128 + N if signal N killed it.";

/// Exact rate limits for shells, scripts and services.
///
/// Limits are plain text ("200 requests / minute") in a config file, by default ./tollway.toml. Usage is counted in a
/// store that all processes share: by default a file in your state folder, or the store that the config or --store
/// names.
#[derive(Debug, Parser)]
#[command(name = NAME, version, after_help = EXIT_CODES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every subcommand.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The config file [default: $TOLLWAY_CONFIG, else ./tollway.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The store, e.g. file:/var/lib/tollway/state [default: the config's, else a file in your state folder]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<StoreUrl>,
    /// Print the result as one JSON object on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only the result and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// When to use colours: auto (on a terminal, unless $NO_COLOR is set), always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    pub(crate) color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(feature = "pipeline")]
    Demo(demo::Arguments),
    Init(init::Arguments),
    Take(take::Arguments),
    Run(run::Arguments),
    Serve(serve::Arguments),
    Dashboard(dashboard::Arguments),
    #[cfg(feature = "gateway")]
    Gateway(gateway::Arguments),
    #[cfg(feature = "top")]
    Top(top::Arguments),
    Usage(usage::Arguments),
    Why(why::Arguments),
    Limit(limit::Arguments),
    Reset(reset::Arguments),
    Policy(policy::Arguments),
    Api(api::Arguments),
    Incidents(incidents::Arguments),
    #[cfg(feature = "pipeline")]
    Pipeline(pipeline::Arguments),
    Plan(plan::Arguments),
    Simulate(simulate::Arguments),
    #[cfg(feature = "vendor")]
    Vendor(vendor::Arguments),
    Doctor(doctor::Arguments),
    Provision(provision::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

impl Command {
    /// Whether it runs for long and sets up its own log.
    pub(crate) fn has_own_log(&self) -> bool {
        match self {
            Self::Serve(_) | Self::Dashboard(_) => true,
            #[cfg(feature = "gateway")]
            Self::Gateway(arguments) => arguments.serves(),
            #[cfg(feature = "pipeline")]
            Self::Pipeline(arguments) => arguments.runs(),
            // Lines would spoil its screen.
            #[cfg(feature = "top")]
            Self::Top(arguments) => !arguments.is_frame(),
            _ => false,
        }
    }
}
