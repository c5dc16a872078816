//! What happens on the way: the limit changes, workers are killed, dead letters are redriven.

use tollway::Clock;
use tollway_memory::WallClock;

use super::driver::Demo;
use super::state::{Event, Killed, Side};
use super::vendor::Vendor;
use super::worker_processes::WorkerProcesses;
use crate::failure::Failure;

/// How many minutes the limit stays lowered.
const LOWERED_MINUTES: u64 = 2;
/// Late in a minute, when its quota is used up: lowering the limit then wastes none of it.
const LATE_PERCENT: u64 = 25;
/// The share of the work after which a worker is killed.
const KILL_AT_PERCENT: u64 = 40;

/// How far the change of the limit has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Lowering {
    #[default]
    Ahead,
    /// Until this minute begins.
    Until(u64),
    Over,
}

impl Demo {
    /// The vendor announces a lower limit for the next minutes. Tollway is told before it comes, and when it is over.
    pub(super) fn change_limit(&mut self) -> Result<(), Failure> {
        let state = &mut self.state;
        let (first, lowered) = (state.quota.limit, state.quota.lowered());
        match self.lowering {
            Lowering::Ahead => {
                let is_late =
                    state.quota.left_of_minute(state.now) <= state.quota.percent_of_minute(LATE_PERCENT);
                let is_busy =
                    state.first_minute() <= state.quota.minute_at(state.now) && state.open_jobs() > 0;
                if is_late && is_busy && lowered < first {
                    self.runtime.block_on(self.pipeline.set_limit(Some(lowered)))?;
                    let from = state.quota.minute_at(WallClock.now()) + 1;
                    let until = from + LOWERED_MINUTES;
                    for vendor in [Some(&self.vendor), self.alone.as_ref().map(|alone| &alone.vendor)]
                        .into_iter()
                        .flatten()
                    {
                        vendor.change_limit(from, lowered);
                        vendor.change_limit(until, first);
                    }
                    state.quota.change(from, lowered);
                    state.quota.change(until, first);
                    state.events.push(Event::Lowered { limit: lowered, from });
                    self.lowering = Lowering::Until(until);
                }
            }
            Lowering::Until(minute) if state.quota.minute_at(state.now) >= minute => {
                self.runtime.block_on(self.pipeline.set_limit(None))?;
                state.events.push(Event::Restored { limit: first });
                self.lowering = Lowering::Over;
            }
            Lowering::Until(_) | Lowering::Over => {}
        }
        Ok(())
    }

    /// Kills one worker of each side in the middle of a call.
    pub(super) fn kill_workers(&mut self) {
        let state = &mut self.state;
        if state.percent_done() >= KILL_AT_PERCENT
            && let Some(killed) = kill(&mut state.tollway, &self.vendor, &self.workers, state.now)
        {
            state.events.push(Event::Killed { alone: false, killed });
        }
        if let (Some(alone), Some(seen)) = (&self.alone, &mut state.alone)
            && (seen.progress.done + seen.progress.lost()) * 100 >= state.plan.jobs * KILL_AT_PERCENT
            && let Some(killed) = kill(&mut seen.side, &alone.vendor, &alone.workers, state.now)
        {
            state.events.push(Event::Killed { alone: true, killed });
        }
    }

    /// When only dead letters are left, corrects and redrives them, once.
    pub(super) fn redrive(&mut self) -> Result<(), Failure> {
        let state = &mut self.state;
        if state.open_jobs() > 0 || state.tollway.ended_at.is_some() {
            return Ok(());
        }
        if state.tollway.busy_until.is_none() {
            state.tollway.busy_until = Some(state.now);
            let redriven = self.runtime.block_on(self.pipeline.correct_and_redrive())?;
            if redriven.jobs > 0 {
                state.events.push(Event::Redriven(redriven));
                return Ok(());
            }
        }
        state.tollway.ended_at = Some(state.now);
        Ok(())
    }
}

/// Kills the worker of the newest call, unless one was killed before.
fn kill(
    side: &mut Side,
    vendor: &Vendor,
    workers: &WorkerProcesses,
    now: tollway::Timestamp,
) -> Option<Killed> {
    if side.killed.is_some() {
        return None;
    }
    let call = vendor.newest_in_flight().filter(|call| workers.kill(call.worker))?;
    side.killed = Some(Killed { worker: call.worker, document: call.document, at: now });
    side.killed
}
