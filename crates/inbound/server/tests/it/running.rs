//! A server for one test, on free ports; dropping it stops it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use tollway::{Limiter, StoreUrl};
#[cfg(feature = "consumers")]
use tollway_consumers::{ConsumersConfig, Records, open_records};
use tollway_server::{
    ClientTimeouts, ConfigWithServer, ListenAddress, ListenerKind, Listeners, ServeError, Server,
    ServerConfig,
};

use crate::client::Client;
use crate::log::Log;

/// Long enough for anything that should happen at all.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A running server.
pub(crate) struct Running {
    pub(crate) server: Arc<Server>,
    addresses: Vec<(ListenerKind, ListenAddress)>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

/// What a server is started with.
pub(crate) struct Setup {
    pub(crate) config: ServerConfig,
    pub(crate) limiter: Limiter,
    pub(crate) store: StoreUrl,
    #[cfg(feature = "consumers")]
    pub(crate) consumers: Option<ConsumersConfig>,
    /// Overrides the records of the config.
    #[cfg(feature = "consumers")]
    pub(crate) records: Option<Arc<dyn Records>>,
    pub(crate) timeouts: ClientTimeouts,
    /// The log of the accepting thread.
    pub(crate) log: Option<Log>,
}

impl Setup {
    /// From the text of a config file, with free ports.
    pub(crate) fn of(text: &str) -> Self {
        tollway_testkit::keep_callsites_enabled();
        let config = ConfigWithServer::parse(text).unwrap();
        let mut server = config.server().cloned().unwrap_or_default();
        let any = || ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
        if matches!(server.listen, ListenAddress::Tcp(_)) {
            server.listen = any();
        }
        server.admin = Some(any());
        let limiter = Limiter::builder().metrics().config(config.limits()).unwrap().build();
        Self {
            config: server,
            limiter,
            store: config.limits().store().cloned().unwrap_or_default(),
            #[cfg(feature = "consumers")]
            consumers: config.consumers().cloned(),
            #[cfg(feature = "consumers")]
            records: None,
            timeouts: ClientTimeouts::default(),
            log: None,
        }
    }

    pub(crate) fn start(self) -> Running {
        self.try_start().unwrap()
    }

    pub(crate) fn try_start(self) -> Result<Running, ServeError> {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            let _logging = self.log.map(|log| tracing::subscriber::set_default(log.subscriber()));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let started = async {
                    let server = Server::new(self.limiter, &self.config)
                        .await?
                        .with_timeouts(self.timeouts)
                        .with_store_at(&self.store);
                    #[cfg(feature = "consumers")]
                    let server = match &self.consumers {
                        Some(consumers) => {
                            let named = || open_records(&consumers.records.expose()).unwrap();
                            server.with_consumers(self.records.unwrap_or_else(named), consumers)?
                        }
                        None => server,
                    };
                    Ok((Arc::new(server), Listeners::bind(&self.config).await?))
                };
                let (server, listeners) = match started.await {
                    Ok(started) => started,
                    Err(error) => return Err(error),
                };
                tell.send((Arc::clone(&server), listeners.addresses())).unwrap();
                server.serve(listeners, async { drop(stopped.await) }).await
            })
        });
        match told.recv() {
            Ok((server, addresses)) => {
                Ok(Running { server, addresses, stop: Some(stop), thread: Some(thread) })
            }
            Err(_) => Err(thread.join().unwrap().unwrap_err()),
        }
    }
}

impl Running {
    /// Starts a server with this config.
    pub(crate) fn of(text: &str) -> Self {
        tollway_testkit::keep_callsites_enabled();
        Setup::of(text).start()
    }

    fn address(&self, kind: ListenerKind) -> &ListenAddress {
        &self.addresses.iter().find(|(known, _)| *known == kind).unwrap().1
    }

    pub(crate) fn tcp(&self, kind: ListenerKind) -> SocketAddr {
        match self.address(kind) {
            ListenAddress::Tcp(address) => *address,
            ListenAddress::Unix { path, .. } => panic!("{} is not a TCP address", path.display()),
        }
    }

    /// A connection for decisions.
    pub(crate) fn client(&self) -> Client {
        Client::tcp(self.tcp(ListenerKind::Decisions))
    }

    /// A connection for administration.
    pub(crate) fn admin(&self) -> Client {
        Client::tcp(self.tcp(ListenerKind::Administration))
    }

    /// Sends the stop signal, without waiting.
    pub(crate) fn tell_to_stop(&mut self) {
        self.stop.take();
    }

    /// Stops it and returns its result.
    pub(crate) fn ended(mut self) -> Result<(), ServeError> {
        self.stop.take();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap().unwrap();
            }
        }
    }
}
