//! What a worker does when everything that had come is answered, by whom it answered last. As the bench's group server
//! measures it, a sleep and a waking cost more than most answers, and a worker that never sleeps keeps others waiting.

use std::cell::Cell;
use std::time::Duration;

/// How a worker rests before it looks for more.
#[derive(Clone, Copy)]
pub(crate) enum Rest {
    /// What clients of HTTP/2 do to make a request takes long. Those on the worker's core go first, and what they send
    /// meanwhile is read in one go.
    GiveWay,
    /// Clients of HTTP/1 and of the Redis protocol send one request after the other. After some of them it sleeps for a
    /// moment: whoever else is on its core runs, and what comes meanwhile is answered in one go. Of those who gave way
    /// instead, some wait until the core is taken from another, milliseconds later.
    Moment,
}

/// How many answers are worth a moment's rest.
const WORTH_A_MOMENT: u32 = 4;

/// For each answer a moment lasts about as long as the answer took, to which the system adds 50 us. In a shorter one too few
/// requests come for what it costs, and a longer one is felt.
const PER_ANSWER: Duration = Duration::from_micros(8);

/// However many answers there were, a moment is no longer than that of so many.
const ANSWERS_MAX: u32 = 32;

thread_local! {
    static NEXT: Cell<Rest> = const { Cell::new(Rest::Moment) };
    static ANSWERS: Cell<u32> = const { Cell::new(0) };
    /// How busy it has been of late, in answers.
    static BUSY: Cell<u32> = const { Cell::new(0) };
}

impl Rest {
    /// Says with each answer of this thread, or with those that go out together, how it rests after it.
    pub(crate) fn after_answer(self) {
        NEXT.set(self);
        ANSWERS.set(ANSWERS.get().saturating_add(1));
    }

    /// What a worker does before it sleeps until something comes.
    pub(super) fn take() {
        let answers = busy_with(ANSWERS.replace(0));
        match NEXT.get() {
            Self::GiveWay => std::thread::yield_now(),
            Self::Moment if answers >= WORTH_A_MOMENT => std::thread::sleep(moment_after(answers)),
            Self::Moment => {}
        }
    }
}

/// Few answers after many are chance, and no reason to be woken for the next one by itself: of how busy it was before, three
/// quarters still count. Whoever has nothing to answer is not busy.
fn busy_with(answers: u32) -> u32 {
    let before = BUSY.get().saturating_mul(3) / 4;
    let busy = if answers == 0 { 0 } else { answers.max(before) };
    BUSY.set(busy);
    busy
}

fn moment_after(answers: u32) -> Duration {
    PER_ANSWER.saturating_mul(answers.min(ANSWERS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_busy_is_so_for_a_while_but_not_with_nothing_to_do() {
        let busy = [16, 1, 1, 20, 1, 1, 1, 1, 1, 1, 0, 1].map(busy_with);
        assert_eq!(busy, [16, 12, 9, 20, 15, 11, 8, 6, 4, 3, 0, 1]);
    }
}
