//! A well-behaved client over HTTP and the Redis protocol, which must always be served.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tollway_server::ListenerKind;

use crate::client::Client;
use crate::redis_client::RedisClient;
use crate::running::Running;

/// Its address, which no abuser uses.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 2, 1);

/// The pause between two rounds of requests.
const PAUSE: Duration = Duration::from_millis(20);

/// After this many rounds it reconnects.
const ROUNDS_PER_CONNECTION: usize = 50;

/// Its results.
#[derive(Default)]
pub(crate) struct Answered {
    answers: usize,
    slowest: Duration,
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the good client had {} responses, the slowest after {:?}", self.answers, self.slowest)
    }
}

/// Sends requests until the test is over. Any unexpected response fails the test.
pub(crate) fn ask_until(server: &Running, over: &AtomicBool) -> Answered {
    let mut answered = Answered::default();
    while !over.load(Ordering::Relaxed) {
        let mut http = Client::over_tcp(server.connect(ADDRESS, ListenerKind::Decisions).unwrap());
        let mut redis = RedisClient::over(server.connect(ADDRESS, ListenerKind::Resp).unwrap());
        for _ in 0..ROUNDS_PER_CONNECTION {
            answered.ask(|| assert_eq!(http.take(r#"{"policy": "api", "subject": "polite"}"#).status, 200));
            answered.ask(|| assert_eq!(redis.throttle(&["polite", "999999999", "1", "60"])[0], 0));
            if over.load(Ordering::Relaxed) {
                break;
            }
            sleep(PAUSE);
        }
    }
    answered
}

impl Answered {
    fn ask(&mut self, question: impl FnOnce()) {
        let begun = Instant::now();
        question();
        self.slowest = self.slowest.max(begun.elapsed());
        self.answers += 1;
    }
}
