//! The settings of a vendor server.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use tollway_core::{Clock, Span};
use tollway_memory::WallClock;

use super::VendorDialect;
use crate::{Terms, VendorLimitError, WindowStart};

/// The settings of a [`VendorServer`](super::VendorServer).
#[derive(Clone, Debug)]
pub struct VendorSettings {
    /// Where to listen. By default a free port of 127.0.0.1.
    pub listen: SocketAddr,
    /// Quotas, latency, errors and other clients. Times are those of the machine's clock; the `voice` is not used.
    pub terms: Terms,
    /// How it tells its limits.
    pub dialect: &'static VendorDialect,
    /// The seed of latency, errors and other clients.
    pub seed: u64,
}

/// Why settings are wrong.
#[derive(Clone, PartialEq, Eq)]
pub enum SettingsError {
    /// One of the limits.
    Limit(VendorLimitError),
    /// No dialect has this name.
    UnknownDialect(String),
}

tollway_core::debug_as_display!(SettingsError);

impl VendorSettings {
    /// A vendor with these limits that sends `Retry-After` and answers at once.
    pub fn new<'l>(limits: impl IntoIterator<Item = &'l str>) -> Result<Self, SettingsError> {
        Self::with_phase(limits, Span::ZERO)
    }

    /// The same. Windows start this long after multiples of their length since 1970.
    pub fn with_phase<'l>(
        limits: impl IntoIterator<Item = &'l str>,
        phase: Span,
    ) -> Result<Self, SettingsError> {
        let mut terms = Terms { latency: (Span::ZERO, Span::ZERO), ..Terms::new(Vec::new()) };
        let start = WindowStart { phase, now: WallClock.now() };
        for limit in limits {
            terms.add_limit(limit, start).map_err(SettingsError::Limit)?;
        }
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Ok(Self { listen, terms, dialect: VendorDialect::http(), seed: 1 })
    }

    /// The same in another dialect; see [`VendorDialect::all`].
    pub fn dialect(self, name: &str) -> Result<Self, SettingsError> {
        let dialect = VendorDialect::by_name(name);
        let dialect = dialect.ok_or_else(|| SettingsError::UnknownDialect(name.to_owned()))?;
        Ok(Self { dialect, ..self })
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(error) => error.fmt(f),
            Self::UnknownDialect(name) => {
                let names: Vec<&str> = VendorDialect::all().map(VendorDialect::name).collect();
                write!(f, "no dialect is named {name:?}; use one of {}", names.join(", "))
            }
        }
    }
}

impl std::error::Error for SettingsError {}
