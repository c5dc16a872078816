//! A proxy in front of AWS on its bad days: it loses answers, throttles, fails single entries of a batch, delivers messages
//! twice, and lets receipts grow old. All at random, by a seed.

use std::io::{self, BufReader};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::Random;
use crate::http::{Message, serve_each};

/// How many of a hundred requests lose their answer, are throttled, or fail.
const LOST_PERCENT: u64 = 2;
const THROTTLED_PERCENT: u64 = 2;
const FAILED_PERCENT: u64 = 1;

/// How many of a hundred entries of a batch fail alone, and how many receipts are too old.
const ENTRY_PERCENT: u64 = 4;
const OLD_PERCENT: u64 = 3;

/// How many of a hundred receives bring a message that was received before.
const TWICE_PERCENT: u64 = 25;

/// How many received messages are remembered.
const REMEMBERED_MAX: usize = 500;

/// What it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultyAwsCounts {
    /// Requests that arrived.
    pub requests: u64,
    /// Requests to SQS.
    pub queue_requests: u64,
    /// Requests that reached the service, and whose answer was lost.
    pub lost: u64,
    /// Requests that were throttled.
    pub throttled: u64,
    /// Requests that failed in the service.
    pub failed: u64,
    /// Entries of batches that failed alone.
    pub entries: u64,
    /// Entries with a receipt that was too old: the answer says that it worked, and it did not.
    pub old: u64,
    /// Messages that were delivered twice.
    pub twice: u64,
}

/// A proxy with its own port. It serves until the process ends.
pub struct FaultyAws {
    addr: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    random: Random,
    counts: FaultyAwsCounts,
    /// Messages that were received, with their queue.
    received: Vec<(String, Value)>,
    calm: bool,
}

impl FaultyAws {
    /// A proxy in front of the service at this address.
    pub fn to(service: SocketAddr, seed: u64) -> Self {
        let state = State {
            random: Random::new(seed),
            counts: FaultyAwsCounts::default(),
            received: Vec::new(),
            calm: false,
        };
        let state = Arc::new(Mutex::new(state));
        let known = Arc::clone(&state);
        let addr = serve_each(move |client| carry(client, service, &known));
        Self { addr, state }
    }

    /// The endpoint for AWS clients.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What it did so far.
    pub fn counts(&self) -> FaultyAwsCounts {
        lock(&self.state).counts
    }

    /// Lets everything through from now on, or not.
    pub fn calm(&self, calm: bool) {
        lock(&self.state).calm = calm;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What happens to a whole request.
enum RequestTreatment {
    Carried,
    Lost,
    Throttled,
    Failed,
}

impl State {
    fn treat(&mut self, queue: bool) -> RequestTreatment {
        self.counts.requests += 1;
        self.counts.queue_requests += u64::from(queue);
        let drawn = self.random.below(100);
        if self.calm || drawn >= LOST_PERCENT + THROTTLED_PERCENT + FAILED_PERCENT {
            RequestTreatment::Carried
        } else if drawn < LOST_PERCENT {
            self.counts.lost += 1;
            RequestTreatment::Lost
        } else if drawn < LOST_PERCENT + THROTTLED_PERCENT {
            self.counts.throttled += 1;
            RequestTreatment::Throttled
        } else {
            self.counts.failed += 1;
            RequestTreatment::Failed
        }
    }

    /// Takes entries out of a batch. They are to fail, or to seem to have worked.
    fn spoil_batch(&mut self, action: &str, request: &mut Value) -> (Vec<Value>, Vec<Value>) {
        let (mut failed, mut ignored) = (Vec::new(), Vec::new());
        let receipts = action.starts_with("Delete") || action.starts_with("ChangeMessageVisibility");
        if let Some(entries) = request["Entries"].as_array_mut().filter(|_| !self.calm) {
            entries.retain(|entry| {
                if self.random.percent(ENTRY_PERCENT) {
                    self.counts.entries += 1;
                    failed.push(json!({
                        "Id": entry["Id"], "Code": "InternalError", "Message": "injected", "SenderFault": false
                    }));
                    false
                } else if receipts && self.random.percent(OLD_PERCENT) {
                    self.counts.old += 1;
                    ignored.push(json!({ "Id": entry["Id"] }));
                    false
                } else {
                    true
                }
            });
        }
        (failed, ignored)
    }

    /// Delivers a message again that was received before, and remembers the new ones.
    fn deliver_twice(&mut self, queue: &str, reply: &mut Value) {
        let again = !self.calm && self.random.percent(TWICE_PERCENT);
        let of_queue: Vec<Value> = self
            .received
            .iter()
            .filter(|(known, _)| known == queue)
            .map(|(_, message)| message.clone())
            .collect();
        let new = reply["Messages"].as_array().cloned().unwrap_or_default();
        if again && !of_queue.is_empty() {
            let old = self.random.pick(&of_queue).clone();
            if !new.iter().any(|message| message["MessageId"] == old["MessageId"]) {
                self.counts.twice += 1;
                let mut messages = new.clone();
                // A receive has at most ten: the last one is lost with its answer, and comes again.
                messages.truncate(9);
                messages.push(old);
                reply["Messages"] = Value::Array(messages);
            }
        }
        self.received.extend(new.into_iter().map(|message| (queue.to_owned(), message)));
        let over = self.received.len().saturating_sub(REMEMBERED_MAX);
        self.received.drain(..over);
    }
}

fn carry(client: &TcpStream, service: SocketAddr, state: &Mutex<State>) -> io::Result<()> {
    let server = TcpStream::connect(service)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut requests, mut replies) = (BufReader::new(client), BufReader::new(&server));
    loop {
        let request = Message::read(&mut requests)?;
        let target = request.header("x-amz-target").unwrap_or_default().to_owned();
        let (queue, action) =
            (target.starts_with("AmazonSQS"), target.rsplit('.').next().unwrap_or_default());
        let treatment = lock(state).treat(queue);
        match treatment {
            RequestTreatment::Throttled => error(queue, "400 Bad Request").write(client)?,
            RequestTreatment::Failed => error(queue, "503 Service Unavailable").write(client)?,
            RequestTreatment::Lost => {
                request.write(&server)?;
                Message::read(&mut replies)?;
                return client.shutdown(Shutdown::Both);
            }
            RequestTreatment::Carried if queue => {
                carry_queue(&request, action, state, &server, &mut replies)?.write(client)?;
            }
            RequestTreatment::Carried => {
                request.write(&server)?;
                Message::read(&mut replies)?.write(client)?;
            }
        }
    }
}

fn carry_queue(
    request: &Message,
    action: &str,
    state: &Mutex<State>,
    server: &TcpStream,
    replies: &mut BufReader<&TcpStream>,
) -> io::Result<Message> {
    let mut body: Value = serde_json::from_slice(&request.body)?;
    let (failed, ignored) = lock(state).spoil_batch(action, &mut body);
    let empty = body["Entries"].as_array().is_some_and(Vec::is_empty);
    let mut reply = if empty {
        ok(&json!({ "Successful": [], "Failed": [] }))
    } else {
        with_body(&request.head, &body).write(server)?;
        Message::read(replies)?
    };
    if !reply.head.starts_with("HTTP/1.1 200") {
        return Ok(reply);
    }
    let mut said: Value =
        if reply.body.is_empty() { json!({}) } else { serde_json::from_slice(&reply.body)? };
    let mut changed = false;
    for (list, more) in [("Failed", failed), ("Successful", ignored)] {
        if !more.is_empty() {
            let all = said[list].as_array().cloned().unwrap_or_default();
            said[list] = all.into_iter().chain(more).collect();
            changed = true;
        }
    }
    if action == "ReceiveMessage" {
        lock(state).deliver_twice(body["QueueUrl"].as_str().unwrap_or_default(), &mut said);
        changed = true;
    }
    if changed {
        reply = with_body(&reply.head, &said);
    }
    Ok(reply)
}

/// The same message with another body.
fn with_body(head: &str, body: &Value) -> Message {
    let body = body.to_string().into_bytes();
    let lines = head.lines().filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !line.to_ascii_lowercase().starts_with("content-length:"));
    let mut head = lines.collect::<Vec<_>>().join("\r\n");
    head += &format!("\r\ncontent-length: {}\r\n\r\n", body.len());
    Message { head, body }
}

fn ok(body: &Value) -> Message {
    with_body("HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.0", body)
}

fn error(queue: bool, status: &str) -> Message {
    let kind = match (status.starts_with("400"), queue) {
        (true, true) => "com.amazonaws.sqs#RequestThrottled",
        (true, false) => "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
        (false, _) => "InternalServerError",
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/x-amz-json-1.0");
    with_body(&head, &json!({ "__type": kind, "message": "injected" }))
}
