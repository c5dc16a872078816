//! Topics and queues of an emulated AWS: what a test sets up and reads, without a client library.

use std::io::BufReader;
use std::net::TcpStream;

use serde_json::{Value, json};

use super::Ministack;
use crate::http::Message;

/// The region that tests use, and the account that ministack has.
const REGION: &str = "us-east-1";
const ACCOUNT: &str = "000000000000";

impl Ministack {
    /// Calls an action of SQS.
    pub fn sqs(&self, action: &str, body: &Value) -> Value {
        let headers = format!("X-Amz-Target: AmazonSQS.{action}\r\nContent-Type: application/x-amz-json-1.0");
        serde_json::from_str(&self.post("sqs", &headers, &body.to_string())).expect("an answer of JSON")
    }

    /// Makes a topic of SNS, and a queue of the same name that gets its messages as they are. The ARN of the topic.
    pub fn topic_with_queue(&self, name: &str) -> String {
        self.sqs("CreateQueue", &json!({ "QueueName": name }));
        let form = "Content-Type: application/x-www-form-urlencoded";
        let topic = format!("arn:aws:sns:{REGION}:{ACCOUNT}:{name}");
        let made = self.post("sns", form, &format!("Action=CreateTopic&Version=2010-03-31&Name={name}"));
        assert!(made.contains(&topic), "{made}");
        let subscribe = format!(
            "Action=Subscribe&Version=2010-03-31&TopicArn={topic}&Protocol=sqs&Endpoint=arn:aws:sqs:{REGION}:{ACCOUNT}:{name}\
             &Attributes.entry.1.key=RawMessageDelivery&Attributes.entry.1.value=true"
        );
        let subscribed = self.post("sns", form, &subscribe);
        assert!(subscribed.contains("SubscriptionArn"), "{subscribed}");
        topic
    }

    /// Takes all messages out of a queue: their bodies.
    pub fn take_messages(&self, queue: &str) -> Vec<String> {
        let url = format!("{}/{ACCOUNT}/{queue}", self.endpoint());
        let mut bodies = Vec::new();
        loop {
            let answer = self.sqs("ReceiveMessage", &json!({ "QueueUrl": url, "MaxNumberOfMessages": 10 }));
            let messages = answer["Messages"].as_array().cloned().unwrap_or_default();
            if messages.is_empty() {
                return bodies;
            }
            for message in messages {
                let receipt = &message["ReceiptHandle"];
                self.sqs("DeleteMessage", &json!({ "QueueUrl": url, "ReceiptHandle": receipt }));
                bodies.push(message["Body"].as_str().unwrap_or_default().to_owned());
            }
        }
    }

    /// Unsigned: ministack reads only the region and the service.
    fn post(&self, service: &str, headers: &str, body: &str) -> String {
        let scope = format!(
            "Credential=test/20260101/{REGION}/{service}/aws4_request, SignedHeaders=host, Signature=0"
        );
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\nAuthorization: AWS4-HMAC-SHA256 {scope}\r\n{headers}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.addr(),
            body.len()
        );
        let stream = TcpStream::connect(self.addr()).expect("ministack is there");
        let sent = Message { head, body: body.as_bytes().to_vec() };
        sent.write(&stream).expect("a request is written");
        let answer = Message::read(&mut BufReader::new(&stream)).expect("an answer");
        String::from_utf8_lossy(&answer.body).into_owned()
    }
}
