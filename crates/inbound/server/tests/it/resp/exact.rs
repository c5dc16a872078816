//! Concurrent clients get exactly the limit.

use std::thread;

use tollway_testkit::servers::RedisServer;

use super::tools::redis_benchmark;
use super::{server, setup};
use crate::redis_client::RedisClient;
use crate::running::Running;

const CLIENTS: usize = 16;

/// Grants of a limit of 1,000 to many concurrent clients, each with pipelines of this length.
fn grants(server: &Running, pipeline: usize) -> i64 {
    let ask = || {
        let mut client = RedisClient::of(server);
        let mut granted = 0;
        for _ in 0..200 / pipeline {
            let request = crate::redis_client::request(&["CL.THROTTLE", "hot", "999", "1", "86400"]);
            client.write(request.repeat(pipeline)).unwrap();
            granted +=
                (0..pipeline).filter(|_| crate::redis_client::numbers(&client.reply())[0] == 0).count();
        }
        granted
    };
    let granted: usize = thread::scope(|scope| {
        (0..CLIENTS)
            .map(|_| scope.spawn(ask))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|one| one.join().unwrap())
            .sum()
    });
    i64::try_from(granted).unwrap()
}

/// B10, I1: sixteen connections over all workers, 3,200 requests, 1,000 grants.
#[test]
fn exactly_the_limit_is_granted() {
    for pipeline in [1, 50] {
        assert_eq!(grants(&server(), pipeline), 1_000, "pipelines of {pipeline}");
    }
}

/// The same with Redis as the store.
#[test]
fn exactly_the_limit_is_granted_with_redis() {
    let redis = RedisServer::start();
    let server = setup(&format!("[store]\nurl = \"{}\"\n", redis.url())).start();
    assert_eq!(grants(&server, 50), 1_000);
}

/// B10: every request of redis-benchmark's fifty clients counts once, with pipelines and without.
#[test]
fn every_request_of_redis_benchmark_counts_once() {
    let server = server();
    let mut left = 100_000;
    for pipeline in ["1", "16"] {
        let throttle = ["CL.THROTTLE", "bench", "99999", "1", "86400"];
        let benchmark = ["-q", "-c", "50", "-n", "20000", "-P", pipeline];
        let said = redis_benchmark(&server, &[&benchmark[..], &throttle].concat());
        assert!(said.contains("requests per second"), "{said}");
        left -= 20_000;
        let now = RedisClient::of(&server).throttle(&["bench", "99999", "1", "86400", "0"]);
        assert_eq!(now[..4], [0, 100_000, left, -1], "pipelines of {pipeline}");
    }
}
