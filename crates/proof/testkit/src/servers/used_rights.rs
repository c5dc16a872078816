//! A proxy in front of an emulated AWS that notes which rights of IAM the calls through it need.
//!
//! A transaction needs the rights of its parts, and a tag at creation that of tagging, as AWS's service authorization reference
//! has it.

use std::collections::BTreeSet;
use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::http::{Message, serve_each};

/// An action and what it is on: `("dynamodb:PutItem", "table/tollway")`. The resource is the end of its ARN.
pub type Right = (String, String);

/// A proxy with its own port. It serves until the process ends.
pub struct UsedRights {
    addr: SocketAddr,
    used: Arc<Mutex<BTreeSet<Right>>>,
}

impl UsedRights {
    /// A proxy in front of the service at this address.
    pub fn of(service: SocketAddr) -> Self {
        let used: Arc<Mutex<BTreeSet<Right>>> = Arc::default();
        let known = Arc::clone(&used);
        let addr = serve_each(move |client| carry(client, service, &known));
        Self { addr, used }
    }

    /// The endpoint for AWS clients.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The rights that were needed since this was last called.
    pub fn take(&self) -> BTreeSet<Right> {
        std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn carry(client: &TcpStream, service: SocketAddr, used: &Mutex<BTreeSet<Right>>) -> io::Result<()> {
    let server = TcpStream::connect(service)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut requests, mut replies) = (BufReader::new(client), BufReader::new(&server));
    loop {
        let request = Message::read(&mut requests)?;
        let rights = rights_of(&request);
        used.lock().unwrap_or_else(PoisonError::into_inner).extend(rights);
        request.write(&server)?;
        Message::read(&mut replies)?.write(client)?;
    }
}

fn rights_of(request: &Message) -> Vec<Right> {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    match request.header("x-amz-target").and_then(|target| target.split_once('.')) {
        Some((service, action)) if service.starts_with("DynamoDB") => of_tables(action, &body),
        Some(("AmazonSQS", action)) => of_queues(action, &body),
        Some(("AmazonSSM", action)) => of_parameters(action, &body),
        Some((other, action)) => vec![right(other, action, "?")],
        // SNS has the older protocol.
        None => of_topics(&String::from_utf8_lossy(&request.body)),
    }
}

fn right(service: &str, action: &str, resource: &str) -> Right {
    (format!("{service}:{action}"), resource.to_owned())
}

fn last_part(text: &str) -> &str {
    text.rsplit(['/', ':']).next().unwrap_or(text)
}

fn of_tables(action: &str, body: &Value) -> Vec<Right> {
    let on = |action: &str, table: &Value| {
        right("dynamodb", action, &format!("table/{}", table.as_str().unwrap_or("?")))
    };
    match action {
        "TransactWriteItems" => {
            let parts = body["TransactItems"].as_array().into_iter().flatten();
            let parts = parts.filter_map(|part| part.as_object()?.iter().next());
            parts
                .map(|(kind, part)| match kind.as_str() {
                    "ConditionCheck" => on("ConditionCheckItem", &part["TableName"]),
                    kind => on(&format!("{kind}Item"), &part["TableName"]),
                })
                .collect()
        }
        "BatchGetItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flatten();
            tables.map(|(table, _)| on(action, &Value::from(table.as_str()))).collect()
        }
        "TagResource" | "ListTagsOfResource" => {
            vec![on(action, &Value::from(last_part(body["ResourceArn"].as_str().unwrap_or("?"))))]
        }
        _ => {
            let tags = body["Tags"].is_array().then(|| on("TagResource", &body["TableName"]));
            [on(action, &body["TableName"])].into_iter().chain(tags).collect()
        }
    }
}

fn of_queues(action: &str, body: &Value) -> Vec<Right> {
    let action = action.strip_suffix("Batch").unwrap_or(action);
    let named = ["QueueName", "QueueUrl", "SourceArn"].iter().find_map(|name| body[*name].as_str());
    let queue = last_part(named.unwrap_or("?"));
    let mut rights = vec![right("sqs", action, queue)];
    match action {
        "CreateQueue" if body["tags"].is_object() => rights.push(right("sqs", "TagQueue", queue)),
        // SQS does these with the rights of the caller.
        "StartMessageMoveTask" => {
            let does = ["ReceiveMessage", "DeleteMessage", "GetQueueAttributes"];
            rights.extend(does.map(|action| right("sqs", action, queue)));
            let to = last_part(body["DestinationArn"].as_str().unwrap_or("?"));
            rights.push(right("sqs", "SendMessage", to));
        }
        _ => {}
    }
    rights
}

fn of_parameters(action: &str, body: &Value) -> Vec<Right> {
    let named = ["Name", "Path", "ResourceId"].iter().find_map(|name| body[*name].as_str());
    let resource = format!("parameter/{}", named.unwrap_or("?").trim_start_matches('/'));
    let tags = body["Tags"].is_array().then(|| right("ssm", "AddTagsToResource", &resource));
    [right("ssm", action, &resource)].into_iter().chain(tags).collect()
}

/// A form: `Action=Publish&TopicArn=arn%3Aaws%3Asns%3A...`.
fn of_topics(form: &str) -> Vec<Right> {
    let field = |wanted: &str| {
        let fields = form.split('&').filter_map(|field| field.split_once('='));
        fields.clone().find(|(name, _)| *name == wanted).map(|(_, value)| value.replace("%3A", ":"))
    };
    let Some(action) = field("Action") else { return vec![right("unknown", "?", form)] };
    let named = ["TopicArn", "ResourceArn", "Name"].iter().find_map(|name| field(name)).unwrap_or_default();
    let tags = form.contains("Tags.member").then(|| right("sns", "TagResource", last_part(&named)));
    [right("sns", &action, last_part(&named))].into_iter().chain(tags).collect()
}
