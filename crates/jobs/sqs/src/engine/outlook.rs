//! What this process knows of a queue without asking SQS: what it has received ahead, and when a job may be there.

use std::collections::{BTreeSet, HashMap, VecDeque};

use tollway_core::{Span, Timestamp};

use super::message::Incoming;

/// How many messages a process keeps that no worker has claimed yet: one receive.
pub(super) const AHEAD_MAX: usize = 10;

/// How long such a message is hidden from others. If the process dies, it comes back after this time.
pub(super) const AHEAD_VISIBILITY: Span = Span::from_secs(30);

/// After this time it is given back, if no worker has claimed it.
const AHEAD_FOR: Span = Span::from_secs(10);

/// Claims follow each other so closely that receiving ahead saves requests.
const FLOWING_WITHIN: Span = Span::from_secs(2);

/// How long a queue that was empty is not asked: the pause doubles.
const PAUSE_MIN: Span = Span::from_secs(1);
const PAUSE_MAX: Span = Span::from_secs(10);

/// How many due times are remembered. A time that is not is found when the queue is asked again.
const DUE_MAX: usize = 10_000;

/// A message that was received ahead.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) message: Incoming,
    received_at: Timestamp,
}

/// What is known of one queue.
#[derive(Debug)]
pub(super) struct Outlook {
    ahead: VecDeque<Ahead>,
    /// A message may be visible.
    maybe: bool,
    /// The last receive brought as many messages as one can: there are probably more.
    plenty: bool,
    /// When to ask again, though nothing says that there is a message.
    ask_at: Timestamp,
    pause: Span,
    /// When jobs are due that this process delayed or claimed.
    due: BTreeSet<(Timestamp, u64)>,
    /// When each of them is: a claim that was renewed is due once, and one that has ended is not.
    due_of: HashMap<u64, Timestamp>,
    claimed_at: Option<Timestamp>,
    /// How long messages that are received ahead are hidden.
    pub(super) visibility: Span,
    /// A long poll is out.
    pub(super) watched: bool,
    pub(super) looked_at: Timestamp,
    /// About how many messages are visible, as SQS said, with what this process did since.
    pub(super) visible: u64,
}

impl Default for Outlook {
    fn default() -> Self {
        Self {
            ahead: VecDeque::new(),
            maybe: true,
            plenty: false,
            ask_at: Timestamp::EPOCH,
            pause: PAUSE_MIN,
            due: BTreeSet::new(),
            due_of: HashMap::new(),
            claimed_at: None,
            visibility: AHEAD_VISIBILITY,
            watched: false,
            looked_at: Timestamp::EPOCH,
            visible: 0,
        }
    }
}

impl Outlook {
    /// Whether a job may be ready, and when to look again otherwise.
    pub(super) fn peek(&mut self, now: Timestamp) -> (bool, Option<Timestamp>) {
        self.looked_at = self.looked_at.max(now);
        self.pass_due(now);
        let ready = !self.ahead.is_empty() || self.may_ask(now);
        (ready, self.due.first().map(|(at, _)| *at))
    }

    fn pass_due(&mut self, now: Timestamp) {
        while let Some(first) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.not_due(first.1);
            self.maybe = true;
        }
    }

    /// Whether to ask SQS for messages.
    pub(super) fn may_ask(&mut self, now: Timestamp) -> bool {
        self.pass_due(now);
        self.maybe || !self.watched && self.ask_at <= now
    }

    /// How many messages to receive for this many workers.
    pub(super) fn receive_count(&self, wanted: usize, now: Timestamp) -> usize {
        let flowing = self.claimed_at.is_some_and(|at| now.since(at) < FLOWING_WITHIN);
        if flowing { AHEAD_MAX } else { wanted.min(AHEAD_MAX) }
    }

    /// Messages were asked for, and this many came.
    pub(super) fn received(&mut self, asked: usize, came: usize, now: Timestamp) {
        self.visible = self.visible.saturating_sub(came as u64);
        if came > 0 {
            (self.claimed_at, self.pause) = (Some(now), PAUSE_MIN);
        }
        self.maybe = came >= asked;
        self.plenty = came >= AHEAD_MAX;
        if !self.maybe {
            self.visible = 0;
            self.ask_at = now.plus(self.pause);
            self.pause = Span::from_micros(self.pause.as_micros() * 2).min(PAUSE_MAX);
        }
    }

    /// A job can be claimed now.
    pub(super) fn ready(&mut self, jobs: u64) {
        self.maybe = true;
        self.visible = self.visible.saturating_add(jobs);
    }

    /// A job is due then, and at no other time that was said before.
    pub(super) fn due_at(&mut self, at: Timestamp, job: u64) {
        self.not_due(job);
        self.due.insert((at, job));
        self.due_of.insert(job, at);
        if self.due.len() > DUE_MAX
            && let Some((_, latest)) = self.due.pop_last()
        {
            self.due_of.remove(&latest);
        }
    }

    /// A job is not due any more.
    pub(super) fn not_due(&mut self, job: u64) {
        if let Some(at) = self.due_of.remove(&job) {
            self.due.remove(&(at, job));
        }
    }

    /// Keeps a message for the next worker.
    pub(super) fn keep(&mut self, message: Incoming, now: Timestamp) {
        self.ahead.push_back(Ahead { message, received_at: now });
    }

    /// The oldest message that was received ahead and is still hidden from others.
    pub(super) fn next_ahead(&mut self, now: Timestamp) -> Option<Incoming> {
        let visibility = self.visibility;
        let hidden_at = |one: &Ahead| now.since(one.received_at) < visibility;
        while let Some(one) = self.ahead.pop_front() {
            if hidden_at(&one) {
                return Some(one.message);
            }
            self.maybe = true;
        }
        None
    }

    /// Messages that no worker has claimed for a while: to be given back.
    pub(super) fn given_back(&mut self, now: Timestamp) -> Vec<Incoming> {
        let mut back = Vec::new();
        while self.ahead.front().is_some_and(|one| now.since(one.received_at) >= AHEAD_FOR) {
            back.extend(self.ahead.pop_front().map(|one| one.message));
        }
        if !back.is_empty() {
            self.ready(back.len() as u64);
        }
        back
    }

    /// All messages that no worker has claimed.
    pub(super) fn all_ahead(&mut self) -> Vec<Incoming> {
        self.ahead.drain(..).map(|one| one.message).collect()
    }

    /// About how many jobs are ready, at most those of one receive: places are taken for them before they are received, and a
    /// process that dies in between loses the places.
    pub(super) fn about_ready(&self) -> u64 {
        let one_receive = AHEAD_MAX as u64;
        if self.plenty { one_receive } else { (self.visible + self.ahead()).min(one_receive) }
    }

    /// How many messages wait here.
    pub(super) fn ahead(&self) -> u64 {
        self.ahead.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    #[test]
    fn empty_queue_is_asked_less_and_less() {
        let mut outlook = Outlook::default();
        let (mut asked, mut now) = (0, NOW);
        for _ in 0..60 {
            now = now.plus(Span::from_secs(1));
            if outlook.may_ask(now) {
                outlook.received(10, 0, now);
                asked += 1;
            }
        }
        assert!((8..=10).contains(&asked), "{asked}");
        outlook.ready(1);
        assert!(outlook.may_ask(now), "a job that this process enqueued is found at once");
    }

    /// Otherwise each job that was done would have a token taken for it once its claim could have expired.
    #[test]
    fn claims_that_were_renewed_or_have_ended_are_not_due() {
        let mut outlook = Outlook { watched: true, ..Outlook::default() };
        outlook.received(1, 0, NOW);
        let at = |seconds| NOW.plus(Span::from_secs(seconds));
        outlook.due_at(at(30), 1);
        outlook.due_at(at(30), 2);
        outlook.due_at(at(60), 2);
        outlook.not_due(1);
        assert_eq!(outlook.peek(at(30)), (false, Some(at(60))));
        outlook.not_due(2);
        assert_eq!(outlook.peek(at(90)), (false, None));
    }

    #[test]
    fn watched_queue_is_not_asked_until_a_job_is_due() {
        let mut outlook = Outlook { watched: true, ..Outlook::default() };
        outlook.received(1, 0, NOW);
        outlook.due_at(NOW.plus(Span::from_secs(30)), 1);
        assert_eq!(outlook.peek(NOW.plus(Span::from_secs(29))), (false, Some(NOW.plus(Span::from_secs(30)))));
        assert_eq!(outlook.peek(NOW.plus(Span::from_secs(30))), (true, None));
    }
}
