//! What a worker does when everything that had come is answered, by whom it answered last. As the bench's group server
//! measures it, a sleep and a waking cost more than most answers, and a worker that never sleeps keeps others waiting.

use std::cell::Cell;
use std::time::Duration;

/// How a worker rests before it looks for more.
#[derive(Clone, Copy)]
pub(crate) enum Rest {
    /// Clients of the Redis protocol are quick: it sleeps until they come.
    UntilCalled,
    /// What clients of HTTP/2 do to make a request takes long. Those on the worker's core go first, and what they send
    /// meanwhile is read in one go.
    GiveWay,
    /// Clients of HTTP/1 send one request after the other. After some of them it sleeps for a moment, and whoever else is
    /// on its core runs: of those who gave way instead, some wait until the core is taken from another, milliseconds later.
    Moment,
}

/// How many answers are worth a moment's rest.
const WORTH_A_MOMENT: u32 = 4;

/// The system makes about twice as long of it. In a shorter one too few requests come for what it costs, and a longer one
/// is felt.
const MOMENT: Duration = Duration::from_micros(60);

thread_local! {
    static NEXT: Cell<Rest> = const { Cell::new(Rest::UntilCalled) };
    static ANSWERS: Cell<u32> = const { Cell::new(0) };
}

impl Rest {
    /// Says with each answer of this thread how it rests after it.
    pub(crate) fn after_answer(self) {
        NEXT.set(self);
        ANSWERS.set(ANSWERS.get().saturating_add(1));
    }

    /// What a worker does before it sleeps until something comes.
    pub(super) fn take() {
        let answers = ANSWERS.replace(0);
        match NEXT.get() {
            Self::GiveWay => std::thread::yield_now(),
            Self::Moment if answers >= WORTH_A_MOMENT => std::thread::sleep(MOMENT),
            Self::UntilCalled | Self::Moment => {}
        }
    }
}
