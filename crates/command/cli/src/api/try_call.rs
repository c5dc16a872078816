//! `tollway api try`: one call of a vendor within its limits.

use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use indicatif::ProgressBar;
use tollway::config::Api;
use tollway::{Limiter, Span};
use tollway_client::{ApiClient, Attempts, CallError, CallFailure, ClientError};
use tollway_dialects::Dialect;

use super::call_result::{Body, CallResult, ObservedLimits};
use super::show;
use crate::complete_names;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::take_arguments::read_wait;
use crate::usage::follow;
use crate::wait::block_on_runtime;

/// The longest body that is sent or read.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Send one call within the limits, and show what the vendor says about them
///
/// Waits for its permits like any other call of the api, sends the headers of the config, and retries within its budget.
/// Prints every attempt, what the response says about quotas, the rate afterwards, and the beginning of the body. Neither
/// headers nor the query are printed: they may be secrets.
///
/// Exits 0 if the vendor answered with a status below 400, 1 with another one or none, and 75 if the vendor or your own
/// limits refused the call: retry later.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "tollway api try [OPTIONS] NAME [METHOD] PATH",
    after_help = "Examples:
  tollway api try notion /v1/users
  tollway api try openai POST /v1/chat/completions --data @question.json
  tollway api try notion /v1/users --base-url http://127.0.0.1:8080    a test server, see `tollway vendor`
  tollway api try github /rate_limit --json | jq .quotas"
)]
pub(crate) struct Arguments {
    /// An api of the config, or a shipped profile; `tollway api list` lists them
    #[arg(add = complete_names::apis())]
    name: String,
    /// The path, after the method if it is not GET (POST with --data)
    #[arg(required = true, num_args = 1..=2, value_name = "[METHOD] PATH")]
    call: Vec<String>,
    /// A header beside those of the config; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = read_header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The body, or @FILE; @- is standard input. It is JSON unless a header says otherwise
    #[arg(long, value_name = "TEXT|@FILE")]
    data: Option<String>,
    /// Another address in place of the api's
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// How often a refused call is sent again [default: the api's]
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
    /// The budget of the call with all its waits, e.g. 30s [default: the api's]
    #[arg(long, value_name = "TIME", value_parser = read_wait)]
    max_time: Option<Span>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let config = context.config_if_any()?;
    let mut api = show::find(&config, &arguments.name)?;
    if let Some(url) = &arguments.base_url {
        api = api.with_base_url(url).map_err(|wrong| Failure::usage(format!("--base-url {url}: {wrong}")))?;
    }
    let body = arguments.data.as_deref().map(read_data).transpose()?;
    let limiter = context.limiter_with_api(&config, api.clone())?;
    follow(&limiter, context);
    let (tried, error) = block_on_runtime(arguments.send(&limiter, api, body, context))?;
    tried.print(context.output())?;
    match (error, tried.status) {
        (Some(error), _) => Err(failure(&error)),
        (None, Some(status)) if status >= 400 => Ok(Exit::FAILED),
        (None, _) => Ok(Exit::DONE),
    }
}

impl Arguments {
    async fn send(
        &self,
        limiter: &Limiter,
        api: Api,
        body: Option<Vec<u8>>,
        context: &Context,
    ) -> Result<(CallResult, Option<CallError>), Failure> {
        let (method, path) = self.method_and_path()?;
        let mut tried = CallResult::new(&api, &method, path);
        let (name, answers) = (api.name().clone(), Answers::default());
        let builder = ApiClient::builder(name.as_str()).limiter(limiter);
        let client = builder.refused_as(answers.clone().recorder(api)).build().map_err(client_failure)?;
        let mut request = client.request(method, path);
        if body.is_some() && !self.headers.iter().any(|(name, _)| name == http::header::CONTENT_TYPE) {
            request = request.header(http::header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name.clone(), value.clone());
        }
        if let Some(max_retries) = self.max_retries {
            request = request.max_retries(max_retries);
        }
        if let Some(max_time) = self.max_time {
            request = request.max_time(max_time.into());
        }
        let request = request.body(body.unwrap_or_default());
        let spinner = context.output().is_watched().then(|| waiting_for(name.as_str()));
        let sent = request.send().await;
        spinner.inspect(ProgressBar::finish_and_clear);
        let error = match sent {
            Ok(response) => {
                tried.attempts = Attempts::of(response.extensions()).to_vec();
                tried.status = Some(response.status().as_u16());
                tried.body = Some(Body::read(response, BODY_BYTES_MAX).await);
                None
            }
            Err(error) => {
                tried.attempts.clone_from(&error.attempts);
                tried.status = error.attempts.last().and_then(|attempt| attempt.status).map(|s| s.as_u16());
                Some(error)
            }
        };
        tried.said = answers.last();
        client.limiter().flush().await;
        // A store that is away is the call's error already.
        tried.snapshot = client.limiter().snapshot().await.ok();
        Ok((tried, error))
    }

    fn method_and_path(&self) -> Result<(Method, &str), Failure> {
        let (method, path) = match &self.call[..] {
            [method, path] => (method.as_str(), path),
            [path] if self.data.is_some() => ("POST", path),
            [path] => ("GET", path),
            _ => return Err(Failure::usage("write a path, like /v1/users")),
        };
        let wrong =
            || Failure::usage(format!("{method:?} is no method")).advise("write GET, POST or another one");
        Method::from_bytes(method.to_ascii_uppercase().as_bytes())
            .map(|method| (method, path.as_str()))
            .map_err(|_| wrong())
    }
}

/// What the vendor's answers said, attempt by attempt.
#[derive(Clone, Default)]
struct Answers(Arc<Mutex<Vec<ObservedLimits>>>);

impl Answers {
    /// A function that is shown every response, and leaves the decision to the dialect.
    fn recorder(
        self,
        api: Api,
    ) -> impl Fn(&tollway_client::VendorResponse<'_>) -> Option<tollway_client::RefusalKind> {
        move |response| {
            let dialect = api.dialect().unwrap_or_else(|| Dialect::detect_in(response));
            let said = ObservedLimits { dialect: dialect.name(), observation: dialect.observe(response) };
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(said);
            None
        }
    }

    fn last(&self) -> Option<ObservedLimits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

fn waiting_for(api: &str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(format!("calling {api}"));
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// `name: value`. The value may be a secret, so no message shows it.
fn read_header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("write it like 'accept: text/plain'")?;
    let name = HeaderName::from_bytes(name.trim().as_bytes())
        .map_err(|_| format!("{name:?} is no name of a header"))?;
    let mut value =
        HeaderValue::from_str(value.trim()).map_err(|_| format!("the value of {name} is not valid"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn read_data(data: &str) -> Result<Vec<u8>, Failure> {
    let Some(path) = data.strip_prefix('@') else { return Ok(data.as_bytes().to_vec()) };
    let read = |input: &mut dyn Read| {
        let mut bytes = Vec::new();
        input.take(BODY_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    let bytes = if path == "-" {
        read(&mut io::stdin().lock())
    } else {
        File::open(path).and_then(|mut file| read(&mut file))
    };
    let bytes = bytes.map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?;
    match bytes.len() > BODY_BYTES_MAX {
        true => Err(Failure::usage(format!("{path} is longer than {BODY_BYTES_MAX} bytes"))),
        false => Ok(bytes),
    }
}

/// Refused and denied calls may succeed later; the rest is as in other commands.
fn failure(error: &CallError) -> Failure {
    let exit = match &error.failure {
        CallFailure::Refused
        | CallFailure::CannotRepeat
        | CallFailure::Held(_)
        | CallFailure::NoTurn { .. }
        | CallFailure::LateTurn { .. }
        | CallFailure::TooManyWaiting => Exit::DENIED,
        CallFailure::NoPermit(error) => Exit::of_take(error),
        CallFailure::Header(_) => Exit::CONFIG,
        CallFailure::Request(_) => Exit::USAGE,
        CallFailure::NoAccess | CallFailure::Timeout(_) | CallFailure::Send(_) => Exit::FAILED,
    };
    Failure::new(exit, format_args!("the call of api {} failed: {}", error.api, error.failure))
}

fn client_failure(error: ClientError) -> Failure {
    match error {
        ClientError::BaseUrl(..) => {
            Failure::new(Exit::CONFIG, error).advise("or name an address: --base-url URL")
        }
        ClientError::UnknownApi { .. } | ClientError::Config(_) | ClientError::Webhook(_) => {
            Failure::new(Exit::CONFIG, error)
        }
        ClientError::Build(_) | ClientError::Account(_) | ClientError::Http(_) => {
            Failure::new(Exit::FAILED, error)
        }
    }
}
