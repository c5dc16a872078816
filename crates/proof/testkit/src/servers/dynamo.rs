//! A DynamoDB for one test, reached over loopback like the real one: an emulator process, or DynamoDB Local if the
//! environment names it.

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::dynamo_emulator::DynamoEmulator;
use super::dynamo_local::DynamoLocal;
use crate::http::Message;

/// A running DynamoDB without tables.
pub struct DynamoServer {
    addr: SocketAddr,
    /// Dropped, it ends the server.
    _running: Running,
}

enum Running {
    Emulator { _server: DynamoEmulator },
    Local { _server: DynamoLocal },
}

impl DynamoServer {
    /// Starts one: DynamoDB Local if `$TOLLWAY_DYNAMODB_LOCAL` is the folder of its jar.
    pub fn start() -> Self {
        match DynamoLocal::if_wanted() {
            Some(server) => Self { addr: server.addr(), _running: Running::Local { _server: server } },
            None => {
                let server = DynamoEmulator::start();
                Self { addr: server.addr(), _running: Running::Emulator { _server: server } }
            }
        }
    }

    /// A server shared by all tests of this process. Tests must leave it unchanged.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<DynamoServer> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of a store with this table, which is created at its first use.
    pub fn url(&self, table: &str) -> String {
        Self::url_through(self.addr, table)
    }

    /// The same through a proxy.
    pub fn url_through(proxy: SocketAddr, table: &str) -> String {
        format!("dynamodb://test:test@{table}?endpoint=http://{proxy}&region=us-east-1&create=yes")
    }

    /// All items of a table, as DynamoDB writes them: `item["ttl"]["N"]`.
    pub fn items(&self, table: &str) -> Vec<Value> {
        let scanned = self.ask("Scan", &json!({ "TableName": table }));
        scanned["Items"].as_array().cloned().unwrap_or_default()
    }

    /// The item of a table that has one.
    pub fn only_item(&self, table: &str) -> Value {
        let mut items = self.items(table);
        assert_eq!(items.len(), 1, "{items:?}");
        items.remove(0)
    }

    /// Puts an item, replacing the one with its key.
    pub fn put(&self, table: &str, item: &Value) {
        self.ask("PutItem", &json!({ "TableName": table, "Item": item }));
    }

    /// Deletes all items of a table whose key is `key`, as an operator might.
    pub fn delete_all(&self, table: &str) {
        for item in self.items(table) {
            self.ask("DeleteItem", &json!({ "TableName": table, "Key": { "key": item["key"] } }));
        }
    }

    /// Sends any request, bypassing the store's code.
    pub fn ask(&self, action: &str, request: &Value) -> Value {
        let body = request.to_string().into_bytes();
        let head = format!(
            "POST / HTTP/1.1\r\nhost: dynamodb\r\ncontent-type: application/x-amz-json-1.0\r\n\
             x-amz-target: DynamoDB_20120810.{action}\r\nx-amz-date: 20260101T000000Z\r\n\
             authorization: AWS4-HMAC-SHA256 Credential=test/x, SignedHeaders=host, Signature=x\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        let stream = TcpStream::connect(self.addr).expect("the server is there");
        Message { head, body }.write(&stream).expect("it takes requests");
        let reply = Message::read(&mut BufReader::new(&stream)).expect("it answers");
        let said = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(reply.head.starts_with("HTTP/1.1 200"), "{action}: {said}");
        serde_json::from_str(&said).expect("it answers in JSON")
    }
}
