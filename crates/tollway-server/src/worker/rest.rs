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
    static ASKING: Cell<u32> = const { Cell::new(0) };
}

impl Rest {
    /// Says with each answer of this thread, or with those that go out together, how it rests after it.
    pub(crate) fn after_answer(self) {
        NEXT.set(self);
        ANSWERS.set(ANSWERS.get().saturating_add(1));
    }

    /// Says how many connections of this thread have asked for something lately.
    pub(super) fn expect(asking: u32) {
        ASKING.set(asking);
    }

    /// What a worker does before it sleeps until something comes.
    pub(super) fn take() {
        let answers = ANSWERS.replace(0);
        match NEXT.get() {
            Self::GiveWay => std::thread::yield_now(),
            Self::Moment if is_worth_a_moment(answers, ASKING.get()) => {
                std::thread::sleep(moment_after(answers));
            }
            Self::Moment => {}
        }
    }
}

/// If all who ask were waiting, the worker came late already, and now it would rest together with them.
fn is_worth_a_moment(answers: u32, asking: u32) -> bool {
    (WORTH_A_MOMENT..asking).contains(&answers)
}

fn moment_after(answers: u32) -> Duration {
    PER_ANSWER.saturating_mul(answers.min(ANSWERS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_rests_after_some_answers_unless_all_who_ask_had_one() {
        assert!(is_worth_a_moment(4, 5));
        assert!(!is_worth_a_moment(3, 5), "too few");
        assert!(!is_worth_a_moment(5, 5), "nobody is left who could ask meanwhile");
        assert!(!is_worth_a_moment(4, 0), "nobody has been seen to ask yet");
    }

    #[test]
    fn a_moment_has_an_end() {
        assert_eq!(moment_after(u32::MAX), moment_after(ANSWERS_MAX));
        assert!(moment_after(WORTH_A_MOMENT) < moment_after(ANSWERS_MAX));
    }
}
