//! The server: serves on given sockets, applies config reloads, and drains before it stops.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::Notify;
use tollway::metrics::Sample;
use tollway::{Limiter, StoreUrl};
use tollway_inbound::address::Peer;

use crate::accept::Acceptor;
use crate::admin::{ChangeLog, LinkToken, StoreHealth, Tokens, WrongTokens, read_permit_secret};
use crate::alone::ClientShares;
use crate::bounds::{
    ADMINISTRATION_CONNECTIONS_MAX, ADMINISTRATION_CONNECTIONS_PER_ADDRESS_MAX, ADMINISTRATION_GRACE,
    ClientTimeouts, HEALTH_CONNECTIONS_MAX,
};
use crate::connection_limits::ConnectionLimits;
use crate::counts::{Counts, count};
use crate::exposure::exposures;
use crate::handler::{MakeAdminHandler, MakeHandler};
use crate::listener::Listener;
use crate::new_subjects::{NewSubjects, NewSubjectsRate};
use crate::observed::ObservedAnswers;
use crate::once_a_minute::OnceAMinute;
use crate::open_listeners::OpenListeners;
use crate::permit::Seal;
use crate::rules::Rules;
use crate::store_labels::StoreLabels;
use crate::worker::Workers;
use crate::{
    ConfigWithServer, ListenAddress, ListenerKind, Listeners, ServeError, ServerConfig, TokenRight,
    store_watch,
};

/// Serves the decisions of one limiter over the network.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tollway::Limiter;
/// use tollway_server::{Listeners, Server, ServerConfig};
///
/// let limiter = Limiter::builder().policy("api", ["100 requests / minute"])?.build();
/// let config = ServerConfig::default();
/// let server = Server::new(limiter, &config).await?;
/// server.serve(Listeners::bind(&config).await?, std::future::pending()).await?;
/// # Ok(()) }
/// ```
pub struct Server {
    pub(crate) state: Arc<ServerState>,
    config: ServerConfig,
    hurried: Notify,
}

/// Reads the metrics of a program, besides those of its limiter, or says why it cannot.
pub type ProgramSamples =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Vec<Sample>, String>> + Send>> + Send + Sync>;

/// The state that all workers share.
pub(crate) struct ServerState {
    pub(crate) limiter: Limiter,
    pub(crate) seal: Seal,
    pub(crate) store: StoreLabels,
    pub(crate) store_health: StoreHealth,
    pub(crate) timeouts: ClientTimeouts,
    pub(crate) counts: Arc<Counts>,
    pub(crate) client_shares: Arc<ClientShares>,
    pub(crate) new_subjects: NewSubjects,
    pub(crate) observed: ObservedAnswers,
    pub(crate) unknown_host_logged: OnceAMinute,
    pub(crate) wrong_tokens: WrongTokens,
    /// Of a gateway, and of a program that is no server otherwise.
    pub(crate) program_samples: Option<ProgramSamples>,
    /// Of a gateway.
    pub(crate) make_handler: Option<MakeHandler>,
    /// Of the administration.
    pub(crate) make_admin_handler: Option<MakeAdminHandler>,
    /// The token of the link that the program printed. Boxed: most servers have none.
    pub(crate) link: Option<Box<Tokens>>,
    pub(crate) changes: Arc<ChangeLog>,
    rules: ArcSwap<Rules>,
    #[cfg(feature = "consumers")]
    pub(crate) consumers: arc_swap::ArcSwapOption<crate::consumers::Consumers>,
    stopping: AtomicBool,
}

impl ServerState {
    pub(crate) fn rules(&self) -> Guard<Arc<Rules>> {
        self.rules.load()
    }

    /// Counts and logs a wrong token.
    pub(crate) fn note_wrong_token(&self, peer: Peer, listener: ListenerKind) {
        count(&self.counts.at(listener).wrong_tokens);
        self.wrong_tokens.log(&self.limiter, peer, listener);
    }

    /// Whether a program that is no server has its metrics served.
    pub(crate) fn serves_only_metrics(&self) -> bool {
        self.program_samples.is_some() && self.make_handler.is_none()
    }

    /// Whether the server is draining or stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

impl Server {
    /// Creates a server for this limiter. Reads the tokens and certificates that the config names.
    pub async fn new(limiter: Limiter, config: &ServerConfig) -> Result<Self, ServeError> {
        let rules = Rules::new(config)?;
        config.admin.iter().try_for_each(|admin| check_administration(admin, &rules))?;
        let seal = Seal::new(&limiter, read_permit_secret(config)?).await?;
        Ok(Self::with(limiter, config.clone(), rules, seal, None))
    }

    /// Creates a server of the administration alone, for a program that is no server otherwise. `/metrics` has those of the
    /// limiter, and `samples`. On an address that other machines reach it needs a token of the config that may read; on this
    /// machine metrics need none, and no TLS.
    pub fn for_program(
        limiter: Limiter,
        config: &ServerConfig,
        address: SocketAddr,
        samples: ProgramSamples,
    ) -> Result<Self, ServeError> {
        let address = ListenAddress::Tcp(address);
        let mut config = ServerConfig { drain: Duration::ZERO, ..config.clone() };
        (config.decisions_token, config.resp_token, config.permits_token) = (None, None, None);
        config.named_tokens.retain(|named| named.right != TokenRight::Decide);
        if address.is_local() {
            config.tls = None;
        }
        let rules = match Rules::new(&config) {
            // Metrics on this machine need no token, so one that cannot be read must not keep the program from starting. It
            // must not open the rest either.
            Err(error) if address.is_local() => {
                tracing::warn!("only /metrics and health checks are answered, until a restart: {error}");
                (config.read_token, config.write_token) = (None, None);
                config.named_tokens.clear();
                Rules::new(&config)?.closed()?
            }
            rules => rules?,
        };
        if rules.tokens.administration_has_none() && !address.is_local() {
            return Err(ServeError::OpenMetrics(address));
        }
        Ok(Self::with(limiter, config, rules, Seal::of_process()?, Some(samples)))
    }

    /// Creates a server whose requests a handler answers, one of them on each worker thread: a gateway. Names, web pages and
    /// the token for decisions are checked before. It serves [`Listeners::bind_gateway`]; its administration has `samples`, too.
    pub fn for_gateway(
        limiter: Limiter,
        config: &ServerConfig,
        make_handler: MakeHandler,
        samples: ProgramSamples,
    ) -> Result<Self, ServeError> {
        let rules = Rules::new(config)?;
        config.admin.iter().try_for_each(|admin| check_administration(admin, &rules))?;
        let mut server = Self::with(limiter, config.clone(), rules, Seal::of_process()?, Some(samples));
        // There is no other reference before the server serves.
        if let Some(state) = Arc::get_mut(&mut server.state) {
            state.make_handler = Some(make_handler);
        }
        Ok(server)
    }

    /// Applies another config to a gateway: limits, names, web pages and the token. On an error nothing changes.
    pub fn reload_gateway(&self, limits: &tollway::Config, config: &ServerConfig) -> Result<(), ServeError> {
        let rules = Rules::new(config)?;
        self.config.admin.iter().try_for_each(|admin| check_administration(admin, &rules))?;
        self.state.limiter.replace_config(limits);
        self.state.rules.store(Arc::new(rules));
        Ok(())
    }

    fn with(
        limiter: Limiter,
        config: ServerConfig,
        rules: Rules,
        seal: Seal,
        program_samples: Option<ProgramSamples>,
    ) -> Self {
        let rules = ArcSwap::from_pointee(rules);
        let new_subjects = NewSubjects::new(new_subjects_rate(&limiter, &config));
        let state = ServerState {
            client_shares: Arc::new(ClientShares::new(Arc::clone(limiter.clock()))),
            limiter,
            seal,
            store: StoreLabels::of(&StoreUrl::default()),
            store_health: StoreHealth::default(),
            timeouts: ClientTimeouts::default(),
            counts: Arc::default(),
            new_subjects,
            observed: ObservedAnswers::default(),
            unknown_host_logged: OnceAMinute::default(),
            wrong_tokens: WrongTokens::default(),
            program_samples,
            make_handler: None,
            make_admin_handler: None,
            link: None,
            changes: Arc::default(),
            rules,
            #[cfg(feature = "consumers")]
            consumers: arc_swap::ArcSwapOption::empty(),
            stopping: AtomicBool::new(false),
        };
        Self { state: Arc::new(state), config, hurried: Notify::new() }
    }

    /// Sets the client timeouts.
    #[must_use]
    pub fn with_timeouts(mut self, timeouts: ClientTimeouts) -> Self {
        // There is no other reference before the server serves.
        if let Some(state) = Arc::get_mut(&mut self.state) {
            state.timeouts = timeouts;
        }
        self
    }

    /// Lets a handler answer the requests of the administration whose path is none of the server's.
    #[must_use]
    pub fn with_admin_handler(mut self, make_handler: MakeAdminHandler) -> Self {
        // There is no other reference before the server serves.
        if let Some(state) = Arc::get_mut(&mut self.state) {
            state.make_admin_handler = Some(make_handler);
        }
        self
    }

    /// Accepts the token of a printed link, besides those of the config.
    pub fn with_link(mut self, link: &LinkToken) -> Result<Self, ServeError> {
        let tokens = link.tokens()?;
        // There is no other reference before the server serves.
        if let Some(state) = Arc::get_mut(&mut self.state) {
            state.link = Some(Box::new(tokens));
        }
        Ok(self)
    }

    /// The last changes of limits through this server.
    pub fn changes(&self) -> Arc<ChangeLog> {
        Arc::clone(&self.state.changes)
    }

    /// Sets the store's URL, so that the log and the administration can name the store, as in `Redis issue: ...`.
    #[must_use]
    pub fn with_store_at(mut self, store: &StoreUrl) -> Self {
        // There is no other reference before the server serves.
        if let Some(state) = Arc::get_mut(&mut self.state) {
            state.store = StoreLabels::of(store);
        }
        self
    }

    /// Whether its TCP listeners use TLS.
    pub fn has_tls(&self) -> bool {
        self.config.tls.is_some()
    }

    /// The limiter.
    pub fn limiter(&self) -> &Limiter {
        &self.state.limiter
    }

    /// Applies a changed config: policies, `[server]` and consumers. On an error nothing changes. The store, the location
    /// of the consumers' records and the keys that [`needs_restart`](crate::needs_restart) names change only on a restart.
    pub fn reload(&self, config: &ConfigWithServer) -> Result<(), ServeError> {
        let default = ServerConfig::default();
        let rules = Rules::new(config.server().unwrap_or(&default))?;
        self.config.admin.iter().try_for_each(|admin| check_administration(admin, &rules))?;
        #[cfg(feature = "consumers")]
        let consumers = match (&*self.state.consumers.load(), config.consumers()) {
            (Some(known), Some(config)) => Some(known.under(config)?),
            _ => None,
        };
        // Nothing can fail from here on.
        self.state.limiter.replace_config(config.limits());
        self.state.rules.store(Arc::new(rules));
        let server = config.server().unwrap_or(&default);
        self.state.new_subjects.set(new_subjects_rate(&self.state.limiter, server));
        #[cfg(feature = "consumers")]
        if let Some(consumers) = consumers {
            self.state.consumers.store(Some(Arc::new(consumers)));
        }
        Ok(())
    }

    /// Serves until `shutdown` is ready. Then `/ready` returns 503 and the server keeps serving for the config's drain.
    /// After that it stops accepting, gives requests in flight the config's grace, and returns. Administration closes last.
    /// Must be called on a tokio runtime with I/O and timers; that runtime only accepts connections.
    pub async fn serve(
        &self,
        listeners: Listeners,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        for exposure in exposures(&self.config, listeners.addresses()) {
            tracing::warn!("{exposure}");
        }
        let (administration, decisions): (Vec<_>, Vec<_>) =
            listeners.0.into_iter().partition(|(kind, _)| kind.is_administration());
        for (_, listener) in &administration {
            check_administration(&listener.address(), &self.state.rules())?;
        }
        let decisions = self.open_for_decisions(decisions)?;
        let administration = self.open_for_administration(administration)?;
        let served = async {
            shutdown.await;
            self.drain().await;
            decisions.close().await;
            self.state.observed.flush().await;
            administration.close().await;
        };
        if self.state.serves_only_metrics() {
            // The program watches its store itself, and there are no permits.
            served.await;
            return Ok(());
        }
        tokio::select! {
            () = served => {}
            () = store_watch::report(&self.state.limiter, self.state.store.in_log) => {}
            () = self.state.seal.settle(&self.state.limiter), if self.state.make_handler.is_none() => {}
        }
        Ok(())
    }

    /// Ends the drain at once.
    pub fn end_drain(&self) {
        self.hurried.notify_one();
    }

    /// Keeps serving while `/ready` returns 503, so that load balancers move away before any request is refused.
    async fn drain(&self) {
        self.state.stopping.store(true, Ordering::Relaxed);
        let drain = self.config.drain;
        if !drain.is_zero() {
            tracing::info!("draining for {drain:?}; /ready returns 503");
            // The timeout and `end_drain` both end the drain.
            let _ = tokio::time::timeout(drain, self.hurried.notified()).await;
        }
    }

    fn open_for_decisions(
        &self,
        listeners: Vec<(ListenerKind, Listener)>,
    ) -> Result<OpenListeners, ServeError> {
        let state = Arc::clone(&self.state);
        let limits =
            Arc::new(ConnectionLimits::new(self.config.connections, self.config.connections_per_address));
        let workers = Workers::start(&state, "tollway", self.workers(), self.config.grace)?;
        Ok(OpenListeners::open(listeners, Acceptor { state, limits, workers }))
    }

    /// Administration has its own worker: it outlives the others and never waits behind their requests.
    fn open_for_administration(
        &self,
        listeners: Vec<(ListenerKind, Listener)>,
    ) -> Result<OpenListeners, ServeError> {
        let state = Arc::clone(&self.state);
        let limits = Arc::new(ConnectionLimits::new(
            ADMINISTRATION_CONNECTIONS_MAX + HEALTH_CONNECTIONS_MAX,
            ADMINISTRATION_CONNECTIONS_PER_ADDRESS_MAX + HEALTH_CONNECTIONS_MAX / 2,
        ));
        let grace = self.config.grace.min(ADMINISTRATION_GRACE);
        let workers = Workers::start(&state, "tollway-admin", listeners.len().min(1), grace)?;
        Ok(OpenListeners::open(listeners, Acceptor { state, limits, workers }))
    }

    fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.config.workers.unwrap_or_else(cores)
    }
}

/// How many new subjects a client network may bring: of stores that heed it, as the others bound their accounts or cannot.
fn new_subjects_rate(limiter: &Limiter, config: &ServerConfig) -> Option<NewSubjectsRate> {
    config.new_subjects.filter(|_| limiter.store().heeds_new_accounts())
}

/// Without a token, administration must be reachable from this machine only.
fn check_administration(address: &ListenAddress, rules: &Rules) -> Result<(), ServeError> {
    if rules.tokens.administration_has_none() && !address.is_local() {
        return Err(ServeError::OpenAdministration(address.clone()));
    }
    Ok(())
}
