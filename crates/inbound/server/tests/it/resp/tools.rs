//! The command-line tools of Redis.

use std::process::{Command, Output};

use tollway_server::ListenerKind;

use crate::running::Running;

/// The output of redis-cli.
pub(crate) fn redis_cli(server: &Running, arguments: &[&str]) -> String {
    let port = server.tcp(ListenerKind::Resp).port().to_string();
    run("redis-cli", &[&["-p", &port], arguments].concat())
}

/// The output of redis-benchmark.
pub(crate) fn redis_benchmark(server: &Running, arguments: &[&str]) -> String {
    let port = server.tcp(ListenerKind::Resp).port().to_string();
    run("redis-benchmark", &[&["-p", &port], arguments].concat())
}

pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let ran = Command::new(program).args(arguments).output();
    let missing = |error| {
        panic!("this test needs the program {program}; install it: apt-get install redis-tools ({error})")
    };
    let Output { status, stdout, stderr } = ran.unwrap_or_else(missing);
    let (said, complained) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{program} {arguments:?}: {said}{complained}");
    said.trim_end().to_owned()
}
