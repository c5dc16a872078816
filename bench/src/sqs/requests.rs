//! Requests at the proxy, and the figures of a run.

use std::time::Duration;

use tollway_testkit::faults::AwsFront;

use crate::report::{BenchReport, Better, Row, Wanted};

const RECEIVES: &[&str] = &["ReceiveMessage"];
const SENDS: &[&str] = &["SendMessage", "SendMessageBatch"];
const DELETES: &[&str] = &["DeleteMessage", "DeleteMessageBatch"];
/// All other actions of SQS that workers may use.
const OTHERS: &[&str] = &[
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
    "CreateQueue",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListQueues",
    "PurgeQueue",
    "SetQueueAttributes",
];
const DYNAMODB: &[&str] = &[
    "BatchGetItem",
    "BatchWriteItem",
    "DeleteItem",
    "DescribeTable",
    "GetItem",
    "PutItem",
    "Query",
    "Scan",
    "TransactGetItems",
    "TransactWriteItems",
    "UpdateItem",
];

/// The counts of the proxy.
#[derive(Clone, Copy)]
pub(super) struct Requests {
    receives: u64,
    sends: u64,
    deletes: u64,
    others: u64,
    dynamodb: u64,
}

impl Requests {
    pub(super) fn at(front: &AwsFront) -> Self {
        let count = |actions: &[&str]| actions.iter().map(|action| front.count(action)).sum();
        Self {
            receives: count(RECEIVES),
            sends: count(SENDS),
            deletes: count(DELETES),
            others: count(OTHERS),
            dynamodb: count(DYNAMODB),
        }
    }
}

/// All for a job and stage, except the last.
pub(super) struct Figures {
    receives: f64,
    sends: f64,
    deletes: f64,
    others: f64,
    dynamodb: f64,
    seconds: f64,
}

impl Figures {
    /// The figures of a run that made this many calls, one for each job and stage.
    pub(super) fn of(calls: u64, before: Requests, after: Requests, wall: Duration) -> Self {
        let each = |count: fn(&Requests) -> u64| (count(&after) - count(&before)) as f64 / calls as f64;
        Self {
            receives: each(|requests| requests.receives),
            sends: each(|requests| requests.sends),
            deletes: each(|requests| requests.deletes),
            others: each(|requests| requests.others),
            dynamodb: each(|requests| requests.dynamodb),
            seconds: wall.as_secs_f64(),
        }
    }

    fn requests(&self) -> f64 {
        self.receives + self.sends + self.deletes + self.others
    }

    /// Rows that compare Tollway with a rival. `wanted` is the most requests to SQS.
    pub(super) fn compare(
        &self,
        theirs: &Self,
        case: &str,
        rival: &str,
        wanted: Option<f64>,
        report: &mut BenchReport,
    ) {
        let mut row = |unit, wanted: Option<f64>, figure: fn(&Self) -> f64| {
            let row = Row::new(case, rival, unit, Better::Lower, figure(self), figure(theirs));
            report.push(row.wanted(wanted.map(Wanted::Ours)));
        };
        row("SQS requests", wanted, Self::requests);
        row("receives", None, |figures| figures.receives);
        row("sends", None, |figures| figures.sends);
        row("deletes", None, |figures| figures.deletes);
        row("other SQS requests", None, |figures| figures.others);
        row("DynamoDB requests", None, |figures| figures.dynamodb);
        row("s for all jobs", None, |figures| figures.seconds);
    }
}
