//! A proxy in front of an AWS service that parses requests: it counts them by action, and answers some itself.

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use crate::http::{Message, serve_each};

/// The treatment of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// The service answers it, as without a rule.
    Answered,
    /// It does not reach the service; the answer is a throttling error.
    Throttled,
    /// It does not reach the service; the answer is a server error.
    Unavailable,
    /// It does not reach the service; the answer is a transaction conflict.
    Conflict,
    /// It does not reach the service; the answer is an access error.
    Denied,
    /// It does not reach the service; the credentials have run out.
    Expired,
    /// It reaches the service; the answer is a server error.
    FailedAfterwards,
    /// It reaches the service; the answer is lost with its connection.
    Lost,
}

/// A proxy with its own port. It serves until the process ends.
pub struct AwsFront {
    addr: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    counts: HashMap<String, u64>,
    failed_conditions: u64,
    /// Rules: the action, the remaining count, and the treatment.
    rules: Vec<(String, u64, Treatment)>,
}

impl State {
    /// Counts a request and returns its treatment.
    fn take(&mut self, action: &str) -> Option<Treatment> {
        *self.counts.entry(action.to_owned()).or_default() += 1;
        let rule =
            self.rules.iter_mut().find(|(named, left, _)| action.contains(named.as_str()) && *left > 0)?;
        rule.1 -= 1;
        Some(rule.2)
    }
}

impl AwsFront {
    /// A proxy in front of the service at this address.
    pub fn to(service: SocketAddr) -> Self {
        let state: Arc<Mutex<State>> = Arc::default();
        let known = Arc::clone(&state);
        let addr = serve_each(move |client| carry(client, service, &known));
        Self { addr, state }
    }

    /// The address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Applies this treatment to the next `count` requests whose action contains this (`PutItem`, `Item`, ``).
    pub fn next(&self, count: u64, action: &str, treatment: Treatment) {
        self.state().rules.push((action.to_owned(), count, treatment));
    }

    /// Applies this treatment to all requests of this kind from now on.
    pub fn always(&self, action: &str, treatment: Treatment) {
        self.next(u64::MAX, action, treatment);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.state().rules.clear();
    }

    /// How many requests of this action arrived.
    pub fn count(&self, action: &str) -> u64 {
        self.state().counts.get(action).copied().unwrap_or(0)
    }

    /// How many writes of items arrived, alone and in transactions.
    pub fn writes(&self) -> u64 {
        self.count("PutItem") + self.count("TransactWriteItems")
    }

    /// How many writes the service rejected by their condition.
    pub fn failed_conditions(&self) -> u64 {
        self.state().failed_conditions
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn carry(client: &TcpStream, service: SocketAddr, state: &Mutex<State>) -> io::Result<()> {
    let server = TcpStream::connect(service)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut requests, mut replies) = (BufReader::new(client), BufReader::new(&server));
    loop {
        let request = Message::read(&mut requests)?;
        let action = request.header("x-amz-target").and_then(|target| target.rsplit('.').next());
        let action = action.unwrap_or_default().to_owned();
        let treatment = state.lock().unwrap_or_else(PoisonError::into_inner).take(&action);
        let treatment = treatment.filter(|treatment| *treatment != Treatment::Answered);
        let reaches = matches!(treatment, None | Some(Treatment::FailedAfterwards | Treatment::Lost));
        let reply = if reaches {
            request.write(&server)?;
            Some(Message::read(&mut replies)?)
        } else {
            None
        };
        match (treatment, reply) {
            (None, Some(reply)) => {
                let failed = b"ConditionalCheckFailed";
                if reply.body.windows(failed.len()).any(|part| part == failed) {
                    state.lock().unwrap_or_else(PoisonError::into_inner).failed_conditions += 1;
                }
                reply.write(client)?;
            }
            (Some(Treatment::Lost), _) => return client.shutdown(Shutdown::Both),
            (treatment, _) => {
                treatment.map_or(Ok(()), |treatment| refusal(treatment, &action).write(client))?
            }
        }
    }
}

/// The error that the service would return.
fn refusal(treatment: Treatment, action: &str) -> Message {
    let (status, kind, more) = match treatment {
        Treatment::Throttled => ("400 Bad Request", "ProvisionedThroughputExceededException", ""),
        Treatment::Unavailable => ("503 Service Unavailable", "ServiceUnavailable", ""),
        Treatment::Denied => ("400 Bad Request", "AccessDeniedException", ""),
        Treatment::Expired => ("400 Bad Request", "ExpiredTokenException", ""),
        Treatment::Conflict if action == "TransactWriteItems" => (
            "400 Bad Request",
            "TransactionCanceledException",
            r#","CancellationReasons":[{"Code":"TransactionConflict"},{"Code":"None"}]"#,
        ),
        Treatment::Conflict => ("400 Bad Request", "TransactionConflictException", ""),
        Treatment::FailedAfterwards | Treatment::Lost | Treatment::Answered => {
            ("500 Internal Server Error", "InternalServerError", "")
        }
    };
    let body = format!(
        r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{kind}","message":"injected","Message":"injected"{more}}}"#
    );
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    Message { head, body: body.into_bytes() }
}
