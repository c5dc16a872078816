//! Who gets the tokens of a table of minutes: tasks in Python and ours, each with one caller and the same work for a token. The
//! figures of the guide's page on AWS are what this prints:
//!
//! ```sh
//! cargo test -p tollway-dynamodb --test it minute_shares:: -- --nocapture
//! ```

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::sync::Arc;
use std::time::Duration;

use tollway_core::Policy;
use tollway_dynamodb::minute::{Layout, MinuteStore};
use tollway_testkit::ManualClock;

use crate::minute::PYTHON;
use crate::minute_table::{NOW, Python, Table, policy, take};

const TASKS: usize = 4;

/// What a token is for, as in the Python.
const WORK: Duration = Duration::from_millis(10);

/// How many tokens one caller gets until it is refused.
async fn take_until_denied(store: Arc<MinuteStore>, policy: Policy) -> u64 {
    let mut granted = 0;
    while take(&*store, &policy, "autotag", 1).await.is_granted() {
        granted += 1;
        tokio::time::sleep(WORK).await;
    }
    granted
}

/// A1, A4: the layout has no queue, so no task is promised a share; every token is granted, once.
#[test]
fn four_tasks_in_python_and_four_of_ours_get_all_tokens() {
    let table = Table::new(Layout::Minute);
    let policy = policy("200 requests / minute");
    let mut pythons = [(); TASKS].map(|()| table.python_with(1, PYTHON, 200, NOW));
    let stores = [(); TASKS].map(|()| Arc::new(table.store(Arc::new(ManualClock::at(NOW)))));
    pythons.iter_mut().for_each(Python::go);
    let ours: Vec<u64> = table.runtime.block_on(async {
        let takes = stores.map(|store| tokio::spawn(take_until_denied(store, policy.clone())));
        let mut ours = Vec::new();
        for taken in takes {
            ours.push(taken.await.unwrap());
        }
        ours
    });
    let theirs: Vec<u64> = pythons.into_iter().map(Python::granted).collect();
    let (sum_of_ours, sum): (u64, u64) = (ours.iter().sum(), ours.iter().chain(&theirs).sum());
    println!("ours {} % {ours:?}, Python {theirs:?}", 100 * sum_of_ours / sum);
    assert_eq!((sum, table.count()), (200, 200));
}
