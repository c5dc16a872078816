//! The servers that are measured, each a process of its own.

mod limitador;
mod ours;
mod process;
mod throttlecrab;

use anyhow::Result;
use clap::ValueEnum;
use tollway_testkit::servers::RedisServer;
use tracing_subscriber::filter::LevelFilter;

use limitador::Limitador;
use ours::Ours;
use throttlecrab::Throttlecrab;

/// Those that are this program, started again.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Served {
    Tollway,
    Limitador,
}

/// Serves until killed. Says its ports on one line first.
///
/// Warnings are written as `tollway serve` and other servers write them: if nobody listened, libraries would format every
/// span for a log that nobody has.
pub(crate) fn serve(who: Served) -> Result<()> {
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::WARN)
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .init();
    match who {
        Served::Tollway => ours::serve(),
        Served::Limitador => limitador::serve(),
    }
}

/// All of them, running. Whoever is not asked anything does nothing.
pub(super) struct Entrants {
    pub(super) ours: Ours,
    pub(super) limitador: Limitador,
    pub(super) throttlecrab: Throttlecrab,
    pub(super) redis: RedisServer,
}

impl Entrants {
    pub(super) fn start() -> Result<Self> {
        let (ours, limitador, throttlecrab) = (Ours::start()?, Limitador::start()?, Throttlecrab::start()?);
        Ok(Self { ours, limitador, throttlecrab, redis: RedisServer::start() })
    }
}
