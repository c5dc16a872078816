//! HTTP handlers and the variables that name a proxy.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use crate::home::Home;

/// Answers every request with 200. Returns its address, and the first line of each request.
fn serve() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut first, mut length) = (String::new(), 0);
            reader.read_line(&mut first).unwrap();
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = send.send(first);
        }
    });
    (address, lines)
}

/// Runs one job whose handler is this, with this address in the variables for proxies.
fn run(handler: &str, proxy: &str) -> String {
    let home = Home::with_config(&format!(
        "[pipelines.docs]\nengine = 'sqlite:jobs.db'\n[[pipelines.docs.stages]]\nname = 'one'\ntries = 1\nhandler = \
         {handler}\n"
    ));
    home.write("jobs.jsonl", "{\"key\": \"a\"}\n");
    assert_eq!(home.run(&["pipeline", "enqueue", "jobs.jsonl"]).0, 0);
    let mut command = home.tollway(&["pipeline", "run", "--json"]);
    for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(variable, format!("http://{proxy}"));
    }
    command.env_remove("NO_PROXY").env_remove("no_proxy").env_remove("REQUEST_METHOD");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A proxy is for other programs: no job is sent to it, and a handler on this machine is reached.
#[test]
fn handlers_ignore_a_proxy_in_the_environment() {
    let (handler, lines) = serve();
    // No server can listen on port 0.
    run(&format!("{{ http = 'http://{handler}/job' }}"), "127.0.0.1:0");
    assert!(lines.recv().unwrap().starts_with("POST /job "));
}

#[test]
fn a_handler_may_ask_for_the_proxy() {
    let (proxy, lines) = serve();
    run("{ http = 'http://handler.example/job', proxy = true }", &proxy);
    assert!(lines.recv().unwrap().starts_with("POST http://handler.example/job "));
}

#[test]
fn proxy_belongs_to_a_handler_with_a_url() {
    let home = Home::with_config(
        "[pipelines.docs]\nengine = 'sqlite:jobs.db'\n[[pipelines.docs.stages]]\nname = 'one'\nhandler = { command = \
         ['cat'], proxy = true }\n",
    );
    let (code, answer, error) = home.run(&["policy", "check"]);
    assert!(
        code != 0 && format!("{answer}{error}").contains("`proxy` belongs to a handler with `http`"),
        "{error}"
    );
}
