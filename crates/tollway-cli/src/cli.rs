//! The command line: what is the same for every subcommand, and which there are.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tollway::StoreUrl;

use crate::{
    completions, demo, doctor, limit, man, plan, policy, provision, reset, run, serve, simulate, take, usage,
    why,
};

/// Exit codes, as `--help` and the man page tell them.
const EXIT_CODES: &str = "\
Exit codes:
  0    done; of take: granted
  1    failed for a reason that is none of the following; of doctor: it has found something
  2    wrong arguments
  65   wrong data in an input file
  69   the store cannot be used
  75   denied: the limit allows it later (run: see --or-exit)
  78   wrong or missing configuration
  126, 127   run: the command cannot be run, is not found
  run otherwise ends as its command ended; 128 + N if signal N killed it.";

/// Rate limits that are never exceeded, in a shell.
///
/// Limits are written as people say them ("200 requests / minute") in a config file, ./tollway.toml unless named
/// otherwise. What is used is kept in a store that all processes share: for the commands here, a file in your state
/// folder unless the config or --store names another.
#[derive(Debug, Parser)]
#[command(name = "tollway", version, after_help = EXIT_CODES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every subcommand understands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// The config file [default: $TOLLWAY_CONFIG, else ./tollway.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where meters live, as in file:/var/lib/tollway/state [default: the config's, else a file in your state folder]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<StoreUrl>,
    /// Answer in JSON, one object on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say only what was asked for and what went wrong
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Colours: on a terminal unless $NO_COLOR is set, always, or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    pub(crate) color: Color,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(demo::Arguments),
    Take(take::Arguments),
    Run(run::Arguments),
    Serve(serve::Arguments),
    Usage(usage::Arguments),
    Why(why::Arguments),
    Limit(limit::Arguments),
    Reset(reset::Arguments),
    Policy(policy::Arguments),
    Plan(plan::Arguments),
    Simulate(simulate::Arguments),
    Doctor(doctor::Arguments),
    Provision(provision::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}
