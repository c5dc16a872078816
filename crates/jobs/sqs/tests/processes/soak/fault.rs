//! What goes wrong, and for how long.

use tollway_core::Span;
use tollway_testkit::Random;

/// A thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// Postgres, with the jobs and the counters, is killed and started again.
    ServerKilled,
    /// Its processes are stopped: connections stay open, and nothing is answered.
    ServerFrozen,
    /// Connections to SQS and the ledger are reset, and new ones refused.
    QueuesCut,
    /// Connections to them stay open, and nothing passes.
    QueuesSilent,
    /// Connections to DynamoDB, with the counters, are reset, and new ones refused.
    CountersCut,
    /// Another process holds the lock of the SQLite file.
    FileLocked,
    /// The disk of the SQLite file and the counters is full.
    DiskFull,
    /// `kill -9` of a runner, which is started again at once.
    RunnerKilled,
    /// A runner is stopped and goes on later.
    RunnerFrozen,
    /// `kill -9` of a process that works for a runner.
    HandlerKilled,
    /// The wall clock, and the vendor's, are set by whole windows.
    ClockStepped,
}

impl Fault {
    /// How long it lasts, at least and at most, in seconds. A runner is frozen for less than the timeout of a stage: answers that
    /// arrived meanwhile are in time.
    fn seconds(self) -> (u64, u64) {
        match self {
            Self::RunnerKilled | Self::HandlerKilled | Self::ClockStepped => (0, 0),
            Self::RunnerFrozen => (2, 45),
            _ => (5, 60),
        }
    }

    /// Draws its length: short ones are as frequent as long ones, and none takes more than a tenth of the soak.
    pub(super) fn draw(self, random: &mut Random, soak: Span) -> Span {
        let (least, most) = self.seconds();
        let tenth = soak.as_micros() / 10_000_000;
        let most = most.min(tenth).max(least);
        let most = if random.below(2) == 0 { least + (most - least) / 4 } else { most };
        Span::from_millis(random.between(least * 1_000, most * 1_000))
    }
}
