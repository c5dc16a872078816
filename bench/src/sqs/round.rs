//! One run: a contender on its own emulator, behind its own proxy.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tollway::Span;
use tollway_testkit::faults::AwsFront;
use tollway_testkit::servers::Ministack;

use super::requests::{Figures, Requests};
use super::vendor::Vendor;
use crate::stopwatch::Lap;

/// No run takes that long.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The same work for each contender.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) limit: String,
    /// Starts with a period of the clock this long; none: at once.
    pub(super) starts_with: Option<Span>,
    pub(super) jobs: u64,
}

/// A way to work through the jobs of both stages.
pub(super) trait Contender: Sized {
    /// The queues of both stages.
    const QUEUES: [&str; 2];

    /// Creates the queues and sends every job to the first one.
    async fn prepare(endpoint: &str, vendor: &Vendor, jobs: u64) -> Result<Self>;

    /// Works until every job has left both stages and its messages are deleted.
    async fn work(self) -> Result<()>;
}

pub(super) fn play<C: Contender>(case: &Case) -> Result<Figures> {
    let server = Ministack::start();
    let front = AwsFront::to(server.addr());
    let vendor = Vendor::new(&case.limit)?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let figures = runtime.block_on(async {
        let contender = C::prepare(&format!("http://{}", front.addr()), &vendor, case.jobs).await?;
        if let Some(period) = case.starts_with {
            sleep(until_next(period, &vendor).into()).await;
        }
        let (before, lap) = (Requests::at(&front), Lap::start());
        timeout(TIMEOUT, contender.work()).await.context("not all jobs are through")??;
        anyhow::Ok(Figures::of(2 * case.jobs, before, Requests::at(&front), lap.time()))
    })?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    check::<C>(case, &server, &vendor)?;
    Ok(figures)
}

/// The time until a period of the clock begins.
fn until_next(period: Span, vendor: &Vendor) -> Span {
    let now = vendor.limiter.clock().now().as_micros();
    Span::from_micros(period.as_micros() - now % period.as_micros())
}

/// Checks that every job was called once in each stage and that no message is left.
fn check<C: Contender>(case: &Case, server: &Ministack, vendor: &Vendor) -> Result<()> {
    let (calls, wanted) = (vendor.calls(), 2 * case.jobs);
    ensure!(calls == wanted, "{}: {calls} calls for {} jobs in two stages", case.name, case.jobs);
    for queue in C::QUEUES {
        let url = server.sqs("GetQueueUrl", &json!({ "QueueName": queue }))["QueueUrl"].clone();
        let request = json!({ "QueueUrl": url, "AttributeNames": ["All"] });
        let said = server.sqs("GetQueueAttributes", &request)["Attributes"].clone();
        for left in ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"] {
            ensure!(said[left] == "0", "{}: {left} of {queue} is {}", case.name, said[left]);
        }
    }
    Ok(())
}
