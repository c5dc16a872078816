//! The pipelines of a soak, each with its own servers.

use std::time::Duration;

use tollway_testkit::faults::FaultProxy;
use tollway_testkit::servers::DynamoServer;

use super::LIMIT;
use super::disk::Disk;
use super::fault::Fault;
use crate::child::{Enqueues, Handlers, Plan};
use crate::lab::{Jobs, Lab};
use crate::stepped_clock::SteppedClock;

/// A pipeline with what is underneath it.
pub(super) struct Rig {
    pub(super) name: &'static str,
    pub(super) lab: Lab,
    pub(super) under: Under,
    /// The names of its runners.
    pub(super) workers: &'static [&'static str],
    /// What goes wrong, in any order.
    pub(super) faults: &'static [Fault],
}

/// What is underneath a pipeline.
pub(super) enum Under {
    /// Files, the counters, too.
    Files(Disk),
    /// A Postgres for the jobs and the counters.
    Server,
    /// SQS and the ledger behind one proxy, a DynamoDB with the counters behind another.
    Proxies(Box<Proxies>),
    /// Files, and a clock that is stepped.
    Stepped(SteppedClock),
}

pub(super) struct Proxies {
    pub(super) queues: FaultProxy,
    pub(super) counters: FaultProxy,
    /// Runs until the soak ends.
    _server: DynamoServer,
}

/// How many jobs wait, more than a window can take.
const AHEAD: u64 = 120;
const LOOKS_EVERY: Duration = Duration::from_millis(250);

impl Rig {
    pub(super) fn sqlite() -> Self {
        let lab = Lab::new(Jobs::Sqlite);
        let disk = Disk::new(lab.path("disk"));
        std::fs::create_dir_all(disk.folder()).unwrap();
        Self {
            name: "SQLite",
            lab,
            under: Under::Files(disk),
            workers: &["one"],
            faults: &[
                Fault::FileLocked,
                Fault::DiskFull,
                Fault::RunnerKilled,
                Fault::RunnerFrozen,
                Fault::HandlerKilled,
            ],
        }
    }

    pub(super) fn postgres() -> Self {
        Self {
            name: "Postgres",
            lab: Lab::new(Jobs::own_postgres()),
            under: Under::Server,
            workers: &["one", "two"],
            faults: &[
                Fault::ServerKilled,
                Fault::ServerFrozen,
                Fault::RunnerKilled,
                Fault::RunnerFrozen,
                Fault::HandlerKilled,
            ],
        }
    }

    pub(super) fn sqs() -> Self {
        let mut queues = None;
        let lab =
            Lab::new(Jobs::sqs(|server| format!("http://{}", queues.insert(FaultProxy::to(server)).addr())));
        let server = DynamoServer::start();
        let counters = FaultProxy::to(server.addr());
        Self {
            name: "SQS",
            lab,
            under: Under::Proxies(Box::new(Proxies { queues: queues.unwrap(), counters, _server: server })),
            workers: &["one", "two"],
            faults: &[
                Fault::QueuesCut,
                Fault::QueuesSilent,
                Fault::CountersCut,
                Fault::RunnerKilled,
                Fault::RunnerFrozen,
                Fault::HandlerKilled,
            ],
        }
    }

    /// On a clock that is set by whole windows, forward and back, and the vendor's with it.
    pub(super) fn stepped() -> Self {
        let lab = Lab::new(Jobs::Sqlite);
        let clock = SteppedClock::at(&lab.path("clock"));
        Self {
            name: "stepped clock",
            lab,
            under: Under::Stepped(clock),
            workers: &["one"],
            faults: &[Fault::ClockStepped, Fault::HandlerKilled],
        }
    }

    /// What the `round`th process of a worker does.
    pub(super) fn plan(&self, worker: &str, round: u64) -> Plan {
        let plan = self.lab.plan(worker, round);
        let (jobs, store, clock) = match &self.under {
            Under::Files(disk) => {
                let file = |name: &str| disk.folder().join(name).display().to_string();
                (file("jobs.db"), format!("file:{}", file("limits")), None)
            }
            Under::Server => {
                let Jobs::Postgres(server, _) = &self.lab.jobs else { unreachable!() };
                (plan.jobs.clone(), server.url(), None)
            }
            Under::Proxies(proxies) => {
                let counters = DynamoServer::url_through(proxies.counters.addr(), "limits");
                (plan.jobs.clone(), counters, None)
            }
            Under::Stepped(clock) => (plan.jobs.clone(), plan.store.clone(), Some(clock.clone())),
        };
        Plan {
            jobs,
            store,
            clock,
            limit: LIMIT.to_owned(),
            strict: true,
            handlers: Handlers::PythonThatBegins,
            concurrency: 5,
            enqueues: Enqueues::Ahead { jobs: AHEAD, every: LOOKS_EVERY },
            ..plan
        }
    }
}
