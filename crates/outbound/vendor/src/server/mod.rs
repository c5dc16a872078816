//! The simulated vendor as an HTTP server on the machine's clock.
//!
//! ```
//! use tollway_vendor::server::{VendorServer, VendorSettings};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let settings = VendorSettings::new(["200 requests / minute"])?.dialect("notion")?;
//! let vendor = VendorServer::start(settings).await?;
//! let client_url = vendor.url();
//! // ... call it ...
//! assert_eq!(vendor.counts().refused, 0);
//! # assert!(client_url.starts_with("http://127.0.0.1:"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod body;
mod connections;
mod dialect;
mod models;
mod settings;
mod state;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollway_core::Timestamp;

use crate::{Outcome, Quota};
pub use dialect::{VendorAnswer, VendorDialect, VendorRefusal};
pub use settings::{SettingsError, VendorSettings};
use state::VendorState;
pub use state::{LoggedCall, VendorCounts};

/// How long [`VendorServer::stop`] waits for calls in flight.
const STOP_MAX: Duration = Duration::from_secs(5);

/// A running vendor. It stops when dropped, and cuts off calls in flight; [`stop`](Self::stop) lets them finish.
#[derive(Debug)]
pub struct VendorServer {
    address: SocketAddr,
    state: Arc<VendorState>,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl VendorServer {
    /// Listens, by default on a free port of 127.0.0.1, and answers on the current tokio runtime.
    pub async fn start(settings: VendorSettings) -> io::Result<Self> {
        let listener = TcpListener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(VendorState::new(settings));
        let (stop, stopped) = watch::channel(false);
        let accepting = tokio::spawn(connections::accept(listener, Arc::clone(&state), stopped));
        Ok(Self { address, state, stop, accepting })
    }

    /// Where it listens: `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All calls since the start.
    pub fn counts(&self) -> VendorCounts {
        self.state.counts()
    }

    /// The last calls, oldest first: at most 200,000.
    pub fn calls(&self) -> Vec<LoggedCall> {
        self.state.calls()
    }

    /// Calls with this outcome that were decided from `from` up to, not including, `to`.
    pub fn count_between(&self, outcome: Outcome, from: Timestamp, to: Timestamp) -> usize {
        self.state.count_between(outcome, from, to)
    }

    /// Replaces the quotas at once. One at the place of a quota of the same unit goes on with what that one had used.
    pub fn set_quotas(&self, quotas: Vec<Quota>) {
        self.state.set_quotas(quotas);
    }

    /// Stops accepting, and waits up to 5 s for calls in flight.
    pub async fn stop(mut self) -> VendorCounts {
        self.stop.send_replace(true);
        let _ = tokio::time::timeout(STOP_MAX, &mut self.accepting).await;
        self.counts()
    }
}

impl Drop for VendorServer {
    fn drop(&mut self) {
        // The task owns the listener and all connections.
        self.accepting.abort();
    }
}
