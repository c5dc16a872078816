//! Move tasks of SQS, which no emulator has: a proxy in front of ministack that does them.
//!
//! It stands in for AWS: a test through it shows what Tollway asks for and how it takes the answers, not what AWS does. Answers and
//! errors are those that AWS documents and that other projects recorded. AWS looks for a redrive policy that names the source in all
//! queues; this looks only at the destination.

use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::Ministack;
use super::ministack::ask;
use crate::http::{Message, serve_each};

/// A proxy with its own port. It serves until the process ends.
pub struct MoveTaskFront {
    addr: SocketAddr,
    state: Shared,
}

type Shared = Arc<Mutex<State>>;

#[derive(Default)]
struct State {
    asked: Vec<(String, Value)>,
    tasks: Vec<Task>,
    /// Tasks fail for this reason after their first message.
    fails: Option<String>,
    /// Tasks wait after their first message.
    holds: bool,
}

struct Task {
    source: String,
    destination: String,
    rate: Option<u64>,
    status: &'static str,
    reason: Option<String>,
    to_move: u64,
    moved: u64,
}

impl MoveTaskFront {
    /// A proxy in front of this server.
    pub fn to(server: &Ministack) -> Self {
        let (state, service) = (Shared::default(), server.addr());
        let known = Arc::clone(&state);
        let addr = serve_each(move |client| carry(client, service, &known));
        Self { addr, state }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The endpoint for AWS clients.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The requests of this action so far: `StartMessageMoveTask`.
    pub fn asked(&self, action: &str) -> Vec<Value> {
        let state = lock(&self.state);
        state.asked.iter().filter(|(known, _)| known == action).map(|(_, body)| body.clone()).collect()
    }

    /// How many messages all tasks have moved.
    pub fn moved(&self) -> u64 {
        lock(&self.state).tasks.iter().map(|task| task.moved).sum()
    }

    /// Lets tasks run after their first message without moving another, until they are cancelled.
    pub fn hold(&self) {
        lock(&self.state).holds = true;
    }

    /// Lets tasks fail after their first message.
    pub fn fail(&self, reason: &str) {
        lock(&self.state).fails = Some(reason.to_owned());
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn carry(client: &TcpStream, service: SocketAddr, state: &Shared) -> io::Result<()> {
    let server = TcpStream::connect(service)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut requests, mut replies) = (BufReader::new(client), BufReader::new(&server));
    loop {
        let request = Message::read(&mut requests)?;
        let target = request.header("x-amz-target").unwrap_or_default();
        let action = target.rsplit('.').next().unwrap_or_default().to_owned();
        if !action.contains("MessageMoveTask") {
            request.write(&server)?;
            Message::read(&mut replies)?.write(client)?;
            continue;
        }
        let body: Value = serde_json::from_slice(&request.body)?;
        lock(state).asked.push((action.clone(), body.clone()));
        let answer = match action.as_str() {
            "StartMessageMoveTask" => start(&body, service, state),
            "ListMessageMoveTasks" => Ok(list(&body, &lock(state))),
            _ => cancel(&body, &mut lock(state)),
        };
        reply(answer).write(client)?;
    }
}

fn start(request: &Value, service: SocketAddr, state: &Shared) -> Result<Value, String> {
    let arn = |name: &str| request[name].as_str().unwrap_or_default().to_owned();
    let (source, destination) = (arn("SourceArn"), arn("DestinationArn"));
    let sqs = Sqs { service };
    let policy = sqs.attribute(&destination, "RedrivePolicy")?;
    if !policy.is_some_and(|policy| policy.contains(&format!("\"{source}\""))) {
        return Err("Source queue must be configured as a Dead Letter Queue.".to_owned());
    }
    let rate = request["MaxNumberOfMessagesPerSecond"].as_u64();
    if rate.is_some_and(|rate| !(1..=500).contains(&rate)) {
        return Err("MaxNumberOfMessagesPerSecond must be between 1 and 500, if provided.".to_owned());
    }
    let waiting = sqs.attribute(&source, "ApproximateNumberOfMessages")?;
    let to_move = waiting.and_then(|waiting| waiting.parse().ok()).unwrap_or(0);
    let mut known = lock(state);
    if known.tasks.iter().any(|task| task.source == source && matches!(task.status, "RUNNING" | "CANCELLING"))
    {
        let said = "There is already a task running. Only one active task is allowed for a source queue arn at a given time.";
        return Err(said.to_owned());
    }
    known.tasks.push(Task { source, destination, rate, status: "RUNNING", reason: None, to_move, moved: 0 });
    let (number, state) = (known.tasks.len() - 1, Arc::clone(state));
    thread::spawn(move || {
        let ended = work(number, &sqs, &state);
        let mut state = lock(&state);
        let task = &mut state.tasks[number];
        (task.status, task.reason) = match ended {
            Ok(status) => (status, None),
            Err(reason) => ("FAILED", Some(reason)),
        };
    });
    Ok(json!({ "TaskHandle": number.to_string() }))
}

/// Moves messages until there are none. Why it ended.
fn work(number: usize, sqs: &Sqs, state: &Mutex<State>) -> Result<&'static str, String> {
    let (source, destination, rate) = {
        let task = &lock(state).tasks[number];
        (task.source.clone(), task.destination.clone(), task.rate)
    };
    loop {
        let (status, held) = {
            let state = lock(state);
            (state.tasks[number].status, state.holds && state.tasks[number].moved > 0)
        };
        if status == "CANCELLING" {
            return Ok("CANCELLED");
        }
        if held {
            thread::sleep(Duration::from_millis(10));
            continue;
        }
        let Some(message) = sqs.receive(&source)? else { return Ok("COMPLETED") };
        sqs.pass_on(&message, &source, &destination)?;
        lock(state).tasks[number].moved += 1;
        if let Some(reason) = lock(state).fails.clone() {
            return Err(reason);
        }
        if let Some(rate) = rate {
            thread::sleep(Duration::from_secs(1) / u32::try_from(rate).unwrap_or(1));
        }
    }
}

fn list(request: &Value, state: &State) -> Value {
    let most = request["MaxResults"].as_u64().map_or(1, |most| usize::try_from(most).unwrap_or(10));
    let of_source = |(_, task): &(usize, &Task)| request["SourceArn"] == task.source.as_str();
    let tasks = state.tasks.iter().enumerate().rev().filter(of_source).take(most);
    let results = tasks.map(|(number, task)| {
        json!({
            // Only tasks that run have it.
            "TaskHandle": (task.status == "RUNNING").then(|| number.to_string()),
            "Status": task.status, "FailureReason": task.reason,
            "SourceArn": task.source, "DestinationArn": task.destination,
            "MaxNumberOfMessagesPerSecond": task.rate,
            "ApproximateNumberOfMessagesToMove": task.to_move, "ApproximateNumberOfMessagesMoved": task.moved,
            // Each later than the one before it.
            "StartedTimestamp": 1_700_000_000_000 + number,
        })
    });
    json!({ "Results": results.collect::<Vec<_>>() })
}

fn cancel(request: &Value, state: &mut State) -> Result<Value, String> {
    let number = request["TaskHandle"].as_str().and_then(|handle| handle.parse::<usize>().ok());
    let task = number.and_then(|number| state.tasks.get_mut(number)).filter(|task| task.status == "RUNNING");
    let task = task.ok_or_else(|| "Value for parameter TaskHandle is invalid.".to_owned())?;
    task.status = "CANCELLING";
    Ok(json!({ "ApproximateNumberOfMessagesMoved": task.moved }))
}

fn reply(answer: Result<Value, String>) -> Message {
    let (status, body) = match answer {
        Ok(body) => ("200 OK", body),
        Err(said) => {
            let kind = "com.amazonaws.sqs#InvalidParameterValue";
            ("400 Bad Request", json!({ "__type": kind, "message": said }))
        }
    };
    let body = body.to_string().into_bytes();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    Message { head, body }
}

/// The server behind it, whose queues it moves messages between.
struct Sqs {
    service: SocketAddr,
}

impl Sqs {
    fn ask(&self, action: &str, arn: &str, mut request: Value) -> Result<Value, String> {
        let mut parts = arn.rsplit(':');
        let (name, account) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        request["QueueUrl"] = format!("http://{}/{account}/{name}", self.service).into();
        let answer = ask(self.service, &format!("AmazonSQS.{action}"), &request);
        answer.map_err(|error| error.to_string())?
    }

    fn attribute(&self, arn: &str, name: &str) -> Result<Option<String>, String> {
        let said = self.ask("GetQueueAttributes", arn, json!({ "AttributeNames": [name] }))?;
        Ok(said["Attributes"][name].as_str().map(str::to_owned))
    }

    fn receive(&self, arn: &str) -> Result<Option<Value>, String> {
        let request = json!({ "MaxNumberOfMessages": 1, "MessageAttributeNames": ["All"] });
        let said = self.ask("ReceiveMessage", arn, request)?;
        Ok(said["Messages"].get(0).cloned())
    }

    /// The same body and attributes, under another message id.
    fn pass_on(&self, message: &Value, from: &str, to: &str) -> Result<(), String> {
        let mut again = json!({ "MessageBody": message["Body"] });
        if message["MessageAttributes"].is_object() {
            again["MessageAttributes"] = message["MessageAttributes"].clone();
        }
        self.ask("SendMessage", to, again)?;
        self.ask("DeleteMessage", from, json!({ "ReceiptHandle": message["ReceiptHandle"] })).map(drop)
    }
}
