//! The measured servers, each a separate process.

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

/// Servers that this program runs itself.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Served {
    Tollway,
    Limitador,
}

/// Serves until killed. Prints its ports on one line first.
///
/// Logs warnings like `tollway serve` and other servers: without a subscriber, libraries would format every span for nothing.
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

/// All running servers. An idle server uses no processor time.
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
