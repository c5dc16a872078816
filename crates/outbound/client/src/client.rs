//! An HTTP client on reqwest that stays within an api's limits.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::redirect::Policy as Redirects;
use reqwest::{Method, Url};
use tollway::config::Api;
use tollway::{Config, Limiter};
use tollway_dialects::{RefusalKind, VendorResponse};

use crate::attempts::{CallOptions, CallSketch};
use crate::error::ClientError;
use crate::limiter::{ApiLimiter, CostFrom, RefusedAs};
use crate::request::ApiRequest;
use crate::tls::use_ring;

/// The most redirects that one request follows.
const REDIRECTS_MAX: usize = 10;

/// An HTTP client of one api. Clones share its connections and limits.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tollway_client::{ApiClient, Priority};
///
/// let openai = ApiClient::for_api("openai")?;
/// let question = serde_json::json!({ "model": "gpt-5", "messages": [{ "role": "user", "content": "Hello" }] });
/// let answer = openai.post("/v1/chat/completions").json(&question).priority(Priority::High).send().await?;
/// println!("{}", answer.text().await?);
/// # Ok(()) }
/// ```
///
/// Needs a tokio runtime with timers and I/O.
#[derive(Clone, Debug)]
pub struct ApiClient {
    pub(crate) http: reqwest::Client,
    limiter: ApiLimiter,
    pub(crate) options: CallOptions,
}

impl ApiClient {
    /// The client of an api in the config file (`$TOLLWAY_CONFIG`, else `tollway.toml` in the working directory), or of a
    /// profile of that name: it then needs no file, and its limits count in this process only.
    pub fn for_api(api: &str) -> Result<Self, ClientError> {
        Self::builder(api).build()
    }

    /// The client of an api of this limiter. Use it to share one limiter among several clients.
    pub fn of(limiter: &Limiter, api: &str) -> Result<Self, ClientError> {
        Self::builder(api).limiter(limiter).build()
    }

    /// A client with settings of its own.
    pub fn builder(api: &str) -> ApiClientBuilder {
        ApiClientBuilder { api: api.to_owned(), ..ApiClientBuilder::default() }
    }

    /// Its limits: `client.limiter().snapshot()` shows the rate and the cooldown.
    pub fn limiter(&self) -> &ApiLimiter {
        &self.limiter
    }

    /// A request. `path` begins at the api's `base_url`, or is a whole URL of the same origin. The base's own path may be
    /// repeated: under `https://api.notion.com/v1`, `/users` and `/v1/users` are the same.
    pub fn request(&self, method: Method, path: &str) -> ApiRequest {
        ApiRequest::new(self.clone(), method, path)
    }

    /// A `GET` request.
    pub fn get(&self, path: &str) -> ApiRequest {
        self.request(Method::GET, path)
    }

    /// A `POST` request.
    pub fn post(&self, path: &str) -> ApiRequest {
        self.request(Method::POST, path)
    }

    /// A `PUT` request.
    pub fn put(&self, path: &str) -> ApiRequest {
        self.request(Method::PUT, path)
    }

    /// A `PATCH` request.
    pub fn patch(&self, path: &str) -> ApiRequest {
        self.request(Method::PATCH, path)
    }

    /// A `DELETE` request.
    pub fn delete(&self, path: &str) -> ApiRequest {
        self.request(Method::DELETE, path)
    }

    /// A `HEAD` request.
    pub fn head(&self, path: &str) -> ApiRequest {
        self.request(Method::HEAD, path)
    }
}

/// Puts an [`ApiClient`] together.
#[derive(Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct ApiClientBuilder {
    api: String,
    limiter: Option<Limiter>,
    config: Option<PathBuf>,
    account: Option<String>,
    http: Option<reqwest::Client>,
    refused_as: Option<RefusedAs>,
    cost_from: Option<CostFrom>,
    options: CallOptions,
}

impl ApiClientBuilder {
    /// Uses this limiter, and no config file.
    pub fn limiter(self, limiter: &Limiter) -> Self {
        Self { limiter: Some(limiter.clone()), ..self }
    }

    /// Uses this config file.
    pub fn config(self, path: impl AsRef<Path>) -> Self {
        Self { config: Some(path.as_ref().to_owned()), ..self }
    }

    /// One of several accounts at the vendor, each with a budget of its own.
    pub fn account(self, account: &str) -> Self {
        Self { account: Some(account.to_owned()), ..self }
    }

    /// Sends with this client: its proxies, certificates and headers. It follows redirects as it was told: each of them is a
    /// call that no limit counts, and may carry headers of the config to another host. Use
    /// `reqwest::redirect::Policy::none()`.
    pub fn http(self, http: reqwest::Client) -> Self {
        Self { http: Some(http), ..self }
    }

    /// The statuses that mean "call later", instead of the config's.
    pub fn backoff_codes(self, codes: impl IntoIterator<Item = u16>) -> Self {
        Self { options: self.options.backoff_codes(codes), ..self }
    }

    /// How often a refused call is sent again, instead of the config's number.
    pub fn max_retries(self, max_retries: u32) -> Self {
        Self { options: self.options.max_retries(max_retries), ..self }
    }

    /// Calls this function first to learn whether a response is a refusal: for vendors that refuse inside a 200.
    pub fn refused_as(
        self,
        refused_as: impl Fn(&VendorResponse<'_>) -> Option<RefusalKind> + Send + Sync + 'static,
    ) -> Self {
        Self { refused_as: Some(Arc::new(refused_as)), ..self }
    }

    /// Estimates what calls cost, as [`ApiLimiter::cost_from`] does.
    pub fn cost_from(
        self,
        cost: impl Fn(&CallSketch<'_>) -> Vec<(String, u64)> + Send + Sync + 'static,
    ) -> Self {
        Self { cost_from: Some(Arc::new(cost)), ..self }
    }

    /// The client.
    pub fn build(self) -> Result<ApiClient, ClientError> {
        let limiter = match (self.limiter, self.config) {
            (Some(limiter), _) => limiter,
            (None, path) => limiter_of(&self.api, path.as_deref())?,
        };
        let mut limits = match self.account {
            Some(account) => ApiLimiter::for_account(&limiter, &self.api, &account)?,
            None => ApiLimiter::new(&limiter, &self.api)?,
        };
        if let Some(refused_as) = self.refused_as {
            limits = limits.refused_as(move |response| refused_as(response));
        }
        if let Some(cost) = self.cost_from {
            limits = limits.cost_from(move |call| cost(call));
        }
        check_base_url(&limits.api())?;
        let http = match self.http {
            Some(http) => http,
            None => http_client().map_err(|error| ClientError::Http(error.into()))?,
        };
        Ok(ApiClient { http, limiter: limits, options: self.options })
    }
}

/// The limiter of the config file, or of a profile. Incidents go to the webhook that the file names.
fn limiter_of(api: &str, path: Option<&Path>) -> Result<Limiter, ClientError> {
    let found = match tollway_config::find_path(path) {
        Ok(found) => Some(found),
        Err(error) if error.is_not_found() && path.is_none() => None,
        Err(error) => return Err(error.into()),
    };
    let mut builder = Limiter::builder().metrics();
    let in_file = match &found {
        Some(path) => Config::load(path)?.api(api).is_some(),
        None => false,
    };
    // A profile is in force without a section, beside the apis of the file.
    if let Some(profile) = Api::profile(api).filter(|_| !in_file) {
        builder = builder.with_api(profile)?;
    }
    let Some(path) = found else {
        tracing::info!(api, "there is no config file: the limits of the api count in this process only");
        return Ok(builder.build());
    };
    let limiter = builder.file(path)?;
    tollway_notify::webhook::attach(&limiter)?;
    Ok(limiter)
}

fn check_base_url(api: &Api) -> Result<(), ClientError> {
    match Url::parse(api.base_url()) {
        Ok(url) if url.has_host() && !api.base_url().contains('{') => Ok(()),
        _ => Err(ClientError::BaseUrl(api.name().clone(), api.base_url().to_owned())),
    }
}

/// A client that follows redirects within one origin only: headers of the config may be secrets.
fn http_client() -> reqwest::Result<reqwest::Client> {
    use_ring();
    let redirects = Redirects::custom(|attempt| {
        let first = attempt.previous().first().map(Url::origin);
        match first == Some(attempt.url().origin()) && attempt.previous().len() < REDIRECTS_MAX {
            true => attempt.follow(),
            false => attempt.stop(),
        }
    });
    reqwest::Client::builder().redirect(redirects).build()
}
