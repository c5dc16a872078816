//! The stream of a server: `GET /v1/live`, again and again while it is shown.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tollway_top::{EventReader, Update};

use super::place::Address;
use crate::failure::{Exit, Failure};

/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// An event comes each second; a connection that is silent for so long is lost.
const SILENT_MAX: Duration = Duration::from_secs(5);

/// The pause before the next try.
const PAUSE: Duration = Duration::from_secs(1);

/// Updates that were not drawn yet. A slow terminal slows the reading down, not the memory up.
const UPDATES_MAX: usize = 4;

/// A running process.
#[derive(Clone)]
pub(super) struct Remote {
    address: Address,
    token: Option<String>,
    client: reqwest::Client,
}

/// Why there is no stream.
pub(super) enum Problem {
    /// It may be there later.
    Away(String),
    /// It answers, and waiting does not help.
    Refused(Failure),
}

impl Remote {
    pub(super) fn new(address: Address, token: Option<String>) -> Result<Self, Failure> {
        tollway_client::use_ring();
        let builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_MAX)
            .read_timeout(SILENT_MAX);
        let builder = match &address {
            Address::Url(_) => builder,
            Address::Socket(path) => builder.unix_socket(path.as_path()),
        };
        let client = builder.build().map_err(|error| {
            Failure::new(Exit::FAILED, format!("cannot make an HTTP client: {}", causes(&error)))
        })?;
        Ok(Self { address, token, client })
    }

    /// Whether it answers with a stream.
    pub(super) async fn try_once(&self) -> Result<(), Problem> {
        self.connect().await.map(drop)
    }

    async fn connect(&self) -> Result<reqwest::Response, Problem> {
        let url = match &self.address {
            Address::Url(url) => format!("{}v1/live", url.as_str()),
            Address::Socket(_) => "http://localhost/v1/live".to_owned(),
        };
        let mut request = self.client.get(url).header("accept", "text/event-stream");
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let away = |why: String| Problem::Away(why);
        let response = match timeout(CONNECT_MAX + SILENT_MAX, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(away(causes(&error))),
            Err(_) => return Err(away("no answer in time".to_owned())),
        };
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        match response.status().as_u16() {
            200 if is_stream => Ok(response),
            status @ (401 | 403) => Err(Problem::Refused(self.no_access(status))),
            200 | 404 | 405 => Err(Problem::Refused(self.no_stream())),
            status => Err(away(format!("it answers {status}"))),
        }
    }

    fn no_access(&self, status: u16) -> Failure {
        let (address, has_token) = (&self.address, self.token.is_some());
        let message = match (status, has_token) {
            (401, true) => format!("the server at {address} does not know this token"),
            (401, false) => format!("the server at {address} wants a token"),
            _ => format!("the server at {address} does not let this token read"),
        };
        let advice = "give the token `read` of its [server.tokens]: --token-file FILE, or $TOLLWAY_TOKEN";
        Failure::new(Exit::CONFIG, message).advise(advice)
    }

    fn no_stream(&self) -> Failure {
        let message = format!("{} answers, but not as the administration of Tollway", self.address);
        Failure::new(Exit::FAILED, message).advise(
            "give the address `admin` of [server], not `listen`; versions before 0.1.0 have no /v1/live",
        )
    }

    pub(super) fn unreachable(&self, why: &str) -> Failure {
        Failure::new(Exit::FAILED, format!("the server at {} does not answer: {why}", self.address))
            .advise("check that it runs, and that this is its administration address")
    }

    /// Reads the stream, and connects again when it ends.
    pub(super) fn follow(&self) -> mpsc::Receiver<Update> {
        let (sender, receiver) = mpsc::channel(UPDATES_MAX);
        let remote = self.clone();
        tokio::spawn(async move {
            loop {
                let why = match remote.connect().await {
                    Ok(response) => remote.read(response, &sender).await,
                    Err(Problem::Away(why)) => why,
                    Err(Problem::Refused(failure)) => failure.message().to_owned(),
                };
                if sender.send(Update::Away(why)).await.is_err() {
                    return;
                }
                sleep(PAUSE).await;
            }
        });
        receiver
    }

    /// Until the stream ends; says why.
    async fn read(&self, mut response: reqwest::Response, sender: &mpsc::Sender<Update>) -> String {
        let mut reader = EventReader::default();
        loop {
            let bytes = match response.chunk().await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return "it has ended the connection".to_owned(),
                Err(error) => return causes(&error),
            };
            let events = match reader.read(&bytes) {
                Ok(events) => events,
                Err(error) => return error.to_string(),
            };
            for event in events {
                if sender.send(Update::Event(event)).await.is_err() {
                    return String::new();
                }
            }
        }
    }
}

/// The last cause says what happened; those before it say where.
fn causes(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
