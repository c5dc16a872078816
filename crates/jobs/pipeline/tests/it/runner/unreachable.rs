//! Handlers that cannot be reached: no try is used, and their stages wait until they are back.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tollway_core::Span;
use tollway_pipeline::handler::{Answer, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::{CommandConfig, HandlerConfig, HttpConfig, JobCost, StageConfig, State};

use super::http::serve;
use super::paused;
use super::subprocess::{Lab, with};
use super::{enqueue, jobs, stage};

fn done(_: &str) -> String {
    "HTTP/1.1 204 X\r\n\r\n".to_owned()
}

/// Two jobs whose handler was tried at least twice in vain.
async fn tried_in_vain(lab: &Lab, handler: HandlerConfig, reason: &str) -> Runner {
    lab.enqueue(2).await;
    let take = JobCost::new([("adobe", "requests", 10)]).unwrap();
    let stage = StageConfig { handler: Some(handler), take, ..with(CommandConfig::new(["none"])) };
    let runner = lab.start(stage).await;
    let outage = loop {
        let jobs = jobs(&lab.engine).await;
        if jobs.iter().map(|job| job.claim_number).sum::<u64>() >= 4
            && let Some(outage) = &runner.progress().await.unwrap().stages[0].unreachable
        {
            break outage.clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(outage.error.contains(reason), "{outage:?}");
    runner
}

/// Two jobs whose only try must not be used. Waits until the handler was tried at least twice in vain, then brings it back.
async fn waits_for(lab: &Lab, handler: HandlerConfig, reason: &str, back: impl FnOnce()) {
    let runner = tried_in_vain(lab, handler, reason).await;
    back();
    tokio::time::timeout(Duration::from_secs(60), runner.finished()).await.unwrap().unwrap();
    assert!(runner.progress().await.unwrap().stages[0].unreachable.is_none());
    runner.drain(Span::from_secs(5)).await.unwrap();
    for job in jobs(&lab.engine).await {
        assert_eq!((job.state, job.failures, job.crashes, job.rate_limited), (State::Done, 0, 0, 0));
    }
    // Calls that did not go out are not paid for.
    assert_eq!(lab.limiter.usage("adobe").await.unwrap().limits[0].used, 20);
}

/// P2, P9: a service that restarts used two of three tries in 0.3 s.
#[tokio::test]
async fn http_handler_that_refuses_connections_uses_no_try() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let handler = HandlerConfig::Http(HttpConfig::new(format!("http://{address}/job")));
    waits_for(&Lab::new(), handler, "Connection refused", || {
        serve(TcpListener::bind(address).unwrap(), done);
    })
    .await;
}

/// P2: no connection in time: the handler's machine takes none, and says nothing.
#[tokio::test]
async fn http_handler_that_accepts_no_connection_uses_no_try() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Two fill its queue; the system drops what comes then.
    let full = [(); 2].map(|()| std::net::TcpStream::connect(address).unwrap());
    let listener = listener.into_std().unwrap();
    listener.set_nonblocking(false).unwrap();
    let handler = HandlerConfig::Http(HttpConfig::new(format!("http://{address}/job")));
    waits_for(&Lab::new(), handler, "the handler cannot be reached", || {
        drop(full);
        serve(listener, done);
    })
    .await;
}

/// P2: a name that cannot be resolved, and a connection that is closed before the request can be sent.
#[tokio::test]
async fn http_handler_without_an_address_or_a_handshake_uses_no_try() {
    let closing = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closing.local_addr().unwrap();
    std::thread::spawn(move || closing.incoming().for_each(drop));
    // No resolver asks a server for a label of 64 letters.
    let nameless = format!("http://{}.invalid/job", "a".repeat(64));
    for url in [nameless, format!("https://{address}/job")] {
        let lab = Lab::new();
        let handler = HandlerConfig::Http(HttpConfig::new(url));
        let runner = tried_in_vain(&lab, handler, "the handler cannot be reached").await;
        runner.drain(Span::from_secs(5)).await.unwrap();
        for job in jobs(&lab.engine).await {
            assert_eq!((job.state, job.failures, job.crashes, job.rate_limited), (State::Ready, 0, 0, 0));
        }
        assert_eq!(lab.limiter.usage("adobe").await.unwrap().limits[0].used, 0);
    }
}

/// P9: a program that is missing is named, and used when it is there.
#[tokio::test]
async fn missing_program_uses_no_try_and_is_named() {
    for each in [false, true] {
        let lab = Lab::new();
        let program = lab.folder.path().join("handler.sh");
        let path = program.display().to_string();
        let command = CommandConfig { each, ..CommandConfig::new([path.clone()]) };
        let reason = format!("`{path}` cannot be started: No such file or directory");
        waits_for(&lab, HandlerConfig::Command(command), &reason, || {
            let script = r#"#!/bin/sh
while read -r line; do echo "$line" | sed 's/.*"id":\([0-9]*\).*/{"done":\1}/'; done"#;
            let unfinished = lab.folder.path().join("unfinished");
            std::fs::write(&unfinished, script).unwrap();
            std::fs::set_permissions(&unfinished, std::fs::Permissions::from_mode(0o755)).unwrap();
            std::fs::rename(unfinished, &program).unwrap();
        })
        .await;
    }
}

/// P9: the command that a shell did not find is named.
#[tokio::test]
async fn command_that_a_shell_cannot_find_is_named() {
    for each in [false, true] {
        let lab = Lab::new();
        lab.enqueue(1).await;
        let command = CommandConfig { each, ..CommandConfig::new(["sh", "-c", "exec tag-pdf"]) };
        let jobs = lab.run(with(command)).await;
        assert!(jobs[0].error.starts_with("`sh -c exec tag-pdf` "), "{}", jobs[0].error);
        assert!(jobs[0].error.contains("exit code 127"), "{}", jobs[0].error);
    }
}

/// P2: an outage of an hour costs a call every 30 s at most, raises the alarm, and a small batch still does its jobs.
#[tokio::test(start_paused = true)]
async fn handler_that_is_away_for_an_hour_is_an_alarm() {
    let lab = paused::Lab::new([]);
    enqueue(&lab.engine, "a", 100, lab.now()).await;
    let until = lab.now().plus(Span::from_hours(1));
    let (clock, calls) = (lab.limiter.clone(), std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0)));
    let counted = calls.clone();
    let handler = handler_fn(move |_| {
        let away = clock.clock().now() < until;
        counted.fetch_add(u64::from(away), std::sync::atomic::Ordering::SeqCst);
        async move {
            match away {
                true => Answer::Unreachable { error: "no route".to_owned(), detail: String::new() },
                false => Answer::done(),
            }
        }
    });
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(StageConfig { tries: 1, crashes: 1, concurrency: 10, ..stage("a") })
        .handler("a", handler)
        .jobs_max(20)
        .start()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(3_000)).await;
    let alarms = runner.alarms();
    assert_eq!(alarms.iter().map(|alarm| alarm.name()).collect::<Vec<_>>(), ["handler_unreachable"]);
    while jobs(&lab.engine).await.iter().filter(|job| job.state == State::Done).count() < 20 {
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(runner.alarms().is_empty(), "{:?}", runner.alarms());
    runner.drain(Span::ZERO).await.unwrap();
    let jobs = jobs(&lab.engine).await;
    assert_eq!(jobs.iter().filter(|job| job.state == State::Done).count(), 20, "a batch of 20");
    assert!(jobs.iter().all(|job| (job.failures, job.crashes) == (0, 0)));
    assert!(calls.load(std::sync::atomic::Ordering::SeqCst) < 10 + 5 + 125, "{calls:?}");
}
