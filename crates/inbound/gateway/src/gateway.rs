//! The gateway: serves its listeners, with one handler on each worker thread.

use std::rc::Rc;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use tollway::config::Api;
use tollway::{Config, Limiter, StoreUrl};
use tollway_client::{ClientError, ForwardingClient};
use tollway_server::{
    Client, HandledBody, HandledFuture, HttpHandler, ListenAddress, Listeners, ProgramSamples, ServeError,
    Server, ServerConfig,
};

use crate::accounts::Accounts;
use crate::call::call;
use crate::learn::Learner;
use crate::metrics::CallCounts;
use crate::request_body::KeptBytes;
use crate::timing;
use crate::vendor_addresses::VendorAddresses;

/// Serves the apis of a limiter to programs in any language.
pub struct Gateway {
    server: Server,
    accounts: Arc<Accounts>,
    learner: Option<Arc<Learner>>,
    listen: ListenAddress,
}

/// Why a gateway cannot start or serve.
#[derive(thiserror::Error)]
pub enum GatewayError {
    /// There is nothing to serve.
    #[error("the config has no api; write [apis.openai] into it, or name profiles: `tollway api list`")]
    NoApis,
    /// Other machines would call vendors with the credentials of the config.
    #[error(
        "the gateway listens on {address}, and api {api} has a credential in the config: other machines that reach it call the vendor in your name; set `token` in [gateway], or listen on 127.0.0.1"
    )]
    OpenCredential {
        /// Where it listens.
        address: ListenAddress,
        /// The api.
        api: String,
    },
    /// Its listeners or tokens.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The HTTP client for vendors cannot be made.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The machine gives no random numbers.
    #[error("the machine gives no random numbers: {0}")]
    Random(String),
}

tollway::core::debug_as_display!(GatewayError);

impl Gateway {
    /// A gateway to the apis of this limiter. A store that does not answer does not keep it from starting.
    pub async fn new(limiter: Limiter, config: &ServerConfig) -> Result<Self, GatewayError> {
        Self::with(limiter, config, None).await
    }

    /// A gateway that limits nothing, and learns the limits of vendors from their answers: see [`learned`](Self::learned).
    pub async fn learning(limiter: Limiter, config: &ServerConfig) -> Result<Self, GatewayError> {
        let learner = Learner::new(Arc::clone(limiter.clock()));
        Self::with(limiter, config, Some(Arc::new(learner))).await
    }

    async fn with(
        limiter: Limiter,
        config: &ServerConfig,
        learner: Option<Arc<Learner>>,
    ) -> Result<Self, GatewayError> {
        let apis = limiter.apis();
        if apis.is_empty() {
            return Err(GatewayError::NoApis);
        }
        check_credentials(&apis, &config.listen, config)?;
        // So that a machine without certificates is found at the start, and not by each worker.
        ForwardingClient::new(Arc::new(VendorAddresses::new(limiter.clone())))?;
        let accounts =
            Accounts::new(limiter.clone()).map_err(|error| GatewayError::Random(error.to_string()))?;
        let accounts = Arc::new(accounts);
        if let Err(error) = accounts.share_secret().await {
            tracing::warn!(%error, "the store keeps no secret for accounts yet; they are known to this gateway only");
        }
        let counts = Arc::new(CallCounts::default());
        let of_worker = (Arc::clone(&accounts), Arc::clone(&counts), learner.clone());
        let make_handler = move || -> Rc<dyn HttpHandler> {
            let (accounts, counts, learner) = of_worker.clone();
            Rc::new(Handler { worker: Rc::new(Worker::new(accounts, counts, learner)) })
        };
        let of_metrics = Arc::clone(&accounts);
        let samples: ProgramSamples = Arc::new(move || {
            let samples = counts.samples(&of_metrics);
            Box::pin(std::future::ready(Ok(samples)))
        });
        let server = Server::for_gateway(limiter, config, Arc::new(make_handler), samples)?;
        Ok(Self { server, accounts, learner, listen: config.listen.clone() })
    }

    /// Sets the store's URL, so that the log and the administration can name the store.
    #[must_use]
    pub fn with_store_at(self, store: &StoreUrl) -> Self {
        Self { server: self.server.with_store_at(store), ..self }
    }

    /// Serves until `shutdown` is ready; calls in flight then have the config's grace.
    pub async fn serve(
        &self,
        listeners: Listeners,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), GatewayError> {
        let served = self.server.serve(listeners, shutdown);
        let secret = async {
            self.accounts.share_secret_in_the_end().await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            served = served => served?,
            () = secret => {}
        }
        self.accounts.flush().await;
        Ok(())
    }

    /// Applies another config. On an error nothing changes. It goes on listening where it does.
    pub fn reload(&self, limits: &Config, config: &ServerConfig) -> Result<(), GatewayError> {
        check_credentials(limits.apis(), &self.listen, config)?;
        Ok(self.server.reload_gateway(limits, config)?)
    }

    /// What a gateway that learns has seen, as sections of a config with their evidence; none of another gateway.
    pub fn learned(&self) -> Option<String> {
        self.learner.as_ref().map(|learner| learner.report())
    }

    /// The limiter.
    pub fn limiter(&self) -> &Limiter {
        self.server.limiter()
    }
}

/// Refuses to let other machines call vendors with credentials of the config, and warns if they may call at all.
fn check_credentials(
    apis: &[Arc<Api>],
    listen: &ListenAddress,
    config: &ServerConfig,
) -> Result<(), GatewayError> {
    if listen.is_local() || config.decisions_token.is_some() {
        return Ok(());
    }
    let with_credential =
        apis.iter().find(|api| api.headers().iter().any(|header| header.holds_credential()));
    if let Some(api) = with_credential {
        let (address, api) = (listen.clone(), api.name().to_string());
        return Err(GatewayError::OpenCredential { address, api });
    }
    tracing::warn!(
        "`listen` of [gateway] ({}) needs no credential: other machines that reach it can use up your quotas; set `token` in [gateway]",
        listen
    );
    Ok(())
}

/// What the calls of one worker thread share.
pub(crate) struct Worker {
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) counts: Arc<CallCounts>,
    /// Made at the first call. Connections stay on their worker, whose runtime serves them.
    http: std::cell::OnceCell<ForwardingClient>,
    pub(crate) kept: KeptBytes,
    /// Of a gateway that watches instead of limiting.
    pub(crate) learner: Option<Arc<Learner>>,
}

impl Worker {
    fn new(accounts: Arc<Accounts>, counts: Arc<CallCounts>, learner: Option<Arc<Learner>>) -> Self {
        Self { accounts, counts, http: std::cell::OnceCell::new(), kept: KeptBytes::default(), learner }
    }

    /// The HTTP client for vendors.
    pub(crate) fn http(&self) -> Result<&ForwardingClient, ClientError> {
        match self.http.get() {
            Some(http) => Ok(http),
            None => {
                let resolver = VendorAddresses::new(self.accounts.limiter().clone());
                let http = ForwardingClient::new(Arc::new(resolver))?;
                Ok(self.http.get_or_init(|| http))
            }
        }
    }
}

struct Handler {
    worker: Rc<Worker>,
}

impl HttpHandler for Handler {
    fn answer(&self, request: Request<Incoming>, client: Client) -> HandledFuture {
        let worker = Rc::clone(&self.worker);
        Box::pin(answer(worker, request, client))
    }
}

async fn answer(worker: Rc<Worker>, request: Request<Incoming>, client: Client) -> Response<HandledBody> {
    let clock = Arc::clone(worker.accounts.limiter().clock());
    let began = clock.now();
    match call(worker, request, client, began).await {
        Ok(response) => response,
        Err(refusal) => {
            let mut response = refusal.into_response();
            timing::add(response.headers_mut(), began, clock.now(), &[]);
            response
        }
    }
}
