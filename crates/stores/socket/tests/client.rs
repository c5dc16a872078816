//! A client and the process that it asks: one that is slow, and one that does not answer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use tollway_socket::{SocketClient, SocketServer};

/// The kernel connects to a suspended process, and takes what it is sent. Later calls must not get the answer of this one.
#[tokio::test(flavor = "multi_thread")]
async fn silent_process_is_an_error_and_not_a_hang() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db-socket");
    let _suspended = UnixListener::bind(&path).unwrap();
    let client = SocketClient::connect(&path).unwrap().unwrap();
    for _ in 0..2 {
        assert_eq!(client.ask(b"7\n".to_vec()).await.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}

/// A suspended process accepts no connection, and at last its queue of them is full.
#[tokio::test(flavor = "multi_thread")]
async fn full_queue_of_connections_is_an_error_and_not_a_hang() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db-socket");
    let _suspended = UnixListener::bind(&path).unwrap();
    let mut clients = Vec::new();
    let error = loop {
        match SocketClient::connect(&path) {
            Ok(client) => clients.push(client.unwrap()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut, "after {} connections", clients.len());
}

/// An answer may take longer than a process may be silent: it is heard while it works.
#[tokio::test(flavor = "multi_thread")]
async fn slow_answer_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db-socket");
    let _server = SocketServer::start(&path, |_| async {
        tokio::time::sleep(Duration::from_secs(7)).await;
        b"\"done\"\n".to_vec()
    });
    let client = SocketClient::connect(&path).unwrap().unwrap();
    let answer: String = serde_json::from_slice(&client.ask(b"7\n".to_vec()).await.unwrap()).unwrap();
    assert_eq!(answer, "done");
}
