//! Six limits cost one Redis command.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use tollway_testkit::servers::RedisServer;

use super::bank::{Bank, Place};

/// `redis-cli MONITOR`; dropping it stops it.
struct Monitor {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Monitor {
    /// Starts to record all commands.
    fn of(redis: &RedisServer) -> Self {
        let port = redis.port().to_string();
        let mut command = Command::new("redis-cli");
        let process =
            command.args(["-h", "127.0.0.1", "-p", &port, "MONITOR"]).stdout(Stdio::piped()).spawn();
        let mut process = process.expect("redis-cli is not installed (Debian: redis-tools)");
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "OK");
        Self { process, lines }
    }

    /// All lines up to the one with this word.
    fn lines_until(&mut self, word: &str) -> Vec<String> {
        let lines = self.lines.by_ref().map(Result::unwrap);
        lines.take_while(|line| !line.contains(word)).collect()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// C1: one command checks and counts all six periods, for granted and for denied calls.
#[test]
fn six_limits_cost_one_redis_command() {
    let mut bank = Bank::at(Place::redis(), "", "");
    bank.record("six", [100, 100, 100, 100, 100, 20]);
    assert_eq!(bank.call("six").status, 200, "loads the script");
    let mut monitor = Monitor::of(bank.redis());
    let statuses = bank.calls("six", 24);
    assert_eq!(statuses, [[200; 19].as_slice(), &[429; 5]].concat());
    bank.redis().command(&["ECHO", "enough"]);
    let seen = monitor.lines_until("enough");
    // Commands inside a script are marked as `lua`; the others came over the network.
    let sent: Vec<&String> =
        seen.iter().filter(|line| line.contains("six") && !line.contains("lua]")).collect();
    assert_eq!(sent.len(), 24, "{sent:#?}");
    assert!(sent.iter().all(|line| line.to_lowercase().contains("\"evalsha\"")), "{sent:#?}");
}
