//! The servers that are measured, each a process of its own.

mod limitador;
mod ours;
mod process;
mod throttlecrab;

use anyhow::Result;
use clap::ValueEnum;
use tollway_testkit::servers::RedisServer;

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
pub(crate) fn serve(who: Served) -> Result<()> {
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
