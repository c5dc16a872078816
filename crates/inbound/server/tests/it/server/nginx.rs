//! Real nginx in front, with the configuration of `examples/nginx/nginx.conf`.

use tollway_server::ListenerKind;

use crate::nginx_process::Nginx;
use crate::running::{Running, Setup};

const EXAMPLE: &str = include_str!("../../../../../../examples/nginx/nginx.conf");

fn tollway(limit: &str) -> Running {
    let example = include_str!("../../../../../../examples/nginx/tollway.toml");
    let limits = example.lines().find(|line| line.starts_with("limits")).unwrap();
    Setup::of(&example.replace(limits, &format!("limits = [\"{limit}\"]"))).start()
}

/// B10: many concurrent connections through nginx get exactly the limit; denials are 429.
#[test]
fn limit_is_exact_behind_nginx() {
    let tollway = tollway("50 requests / hour from first call");
    let nginx = Nginx::start(EXAMPLE, tollway.tcp(ListenerKind::Decisions));
    let counts: Vec<(usize, usize)> = std::thread::scope(|scope| {
        let ask = |thread: usize| {
            let mut client = nginx.client();
            let statuses: Vec<u16> = (0..25)
                .map(|call| {
                    // A forged header does not make a new client.
                    let forged = format!("x-forwarded-for: 203.0.{thread}.{call}\r\n");
                    client.get("/", &forged).status
                })
                .collect();
            let count = |status: u16| statuses.iter().filter(|given| **given == status).count();
            (count(200), count(429))
        };
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || ask(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sum = counts.iter().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    assert_eq!(sum, (50, 150));
}

/// B10, C5: headers reach the client on grants and denials; the application's own 403 stays a 403; without Tollway, nginx
/// lets no request through.
#[test]
fn nginx_forwards_headers_and_denials() {
    let tollway = tollway("2 requests / hour from first call");
    let nginx = Nginx::start(EXAMPLE, tollway.tcp(ListenerKind::Decisions));
    let mut client = nginx.client();
    let granted = client.get("/", "");
    assert_eq!((granted.status, granted.body.as_str()), (200, "hello\n"));
    assert_eq!(
        (granted.header("x-rate-limit-limit"), granted.header("x-rate-limit-remaining")),
        (Some("2"), Some("1"))
    );
    assert_eq!(client.get("/forbidden", "").body, "the application says no\n");
    let denied = client.get("/", "");
    assert_eq!((denied.status, denied.header("x-rate-limit-remaining")), (429, Some("0")));
    let retry_after: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!((3_500..=3_600).contains(&retry_after), "{retry_after}");
    drop(tollway);
    assert_eq!(nginx.client().get("/", "").status, 500);
}
