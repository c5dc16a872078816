//! Whether the server has room for new keys. Its answers say so: a process that is told remembers it for a second.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tollway_core::bounds::MEMORY_ALARM;
use tollway_core::{Action, Name, NewAccounts, Operation, Span, StoreFigures};
use tollway_remote::{Call, RETRY_FOR};

use crate::servers::Servers;
use crate::shared_account::lifetime;
use crate::shared_notice::{Notice, exchange};

/// How long a full server counts as full. Then a call finds out: if the server has no room, it costs one more round trip.
const FULL_FOR: Duration = Duration::from_secs(1);

/// How many policies may make shared accounts: callers can name limits of their own, and each would make more of them in a
/// full server. As in memory.
const SHARING_POLICIES_MAX: usize = 256;

/// Up to how much of its `maxmemory`, in millionths, a full server still gets the short-lived keys of known consumers: what
/// is above it must fit into memory that the machine has anyway.
const SOME_ROOM_MAX: u64 = 1_100_000;

/// For how much longer than needed it is noted that subjects share accounts: while they do, it is noted a few times a minute.
const NOTED_AHEAD: Duration = Duration::from_secs(20);

/// What a command may do for subjects that have no account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewKeys {
    /// It makes them one.
    Make,
    /// It makes those one that share none. The keys of shared accounts go with it.
    MakeOrShare,
    /// It makes none but the shared ones, in a server that has no room.
    Share {
        /// Whether a subject that has one key may get its others.
        has_some_room: bool,
    },
}

/// What this process knows about the room of its server.
pub(crate) struct Room {
    started: Instant,
    /// Until when the server counts as full, in microseconds since `started`.
    full_until: AtomicU64,
    /// Until when a shared account may hold usage of a subject.
    shared_until: AtomicU64,
    /// Until when that is noted in the server, for other processes.
    noted_until: AtomicU64,
    /// Whether the server has said until when, as other processes noted it.
    is_told: AtomicBool,
    /// Whether the server knows no scripts that run while it is full, because it is older than Redis 7.0.
    is_old: AtomicBool,
    full_logged: AtomicBool,
    /// Whether the server was a little above its `maxmemory` when it was last asked, and not more.
    has_some_room: AtomicBool,
    /// The policies whose subjects may share accounts.
    sharing: Mutex<HashSet<Name>>,
    /// Operations that were decided while the server was full.
    while_full: AtomicU64,
    /// How much of its `maxmemory` the server used when it was last asked, in millionths; 0 if it has none or does not say.
    pub(crate) memory_used: AtomicU64,
    /// Wakes the task that asks the server.
    pub(crate) wake: Notify,
    /// Whether that task runs.
    pub(crate) is_watched: AtomicBool,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            full_until: AtomicU64::new(0),
            shared_until: AtomicU64::new(0),
            noted_until: AtomicU64::new(0),
            is_told: AtomicBool::new(false),
            is_old: AtomicBool::new(false),
            full_logged: AtomicBool::new(false),
            has_some_room: AtomicBool::new(false),
            sharing: Mutex::default(),
            while_full: AtomicU64::new(0),
            memory_used: AtomicU64::new(0),
            wake: Notify::new(),
            is_watched: AtomicBool::new(false),
        }
    }

    /// How calls are sent now.
    pub(crate) fn new_keys<'c>(&self, calls: impl Iterator<Item = &'c Call>) -> NewKeys {
        let now = self.now();
        let full_until = self.full_until.load(Ordering::Relaxed);
        let (mut wants_shared, mut sent_while_full) = (false, false);
        // Most processes never meet a full server, and look at no call.
        let recently_full = full_until > 0 && now < full_until.saturating_add(micros(RETRY_FOR));
        for call in calls {
            wants_shared |= shares(call);
            sent_while_full |= recently_full && call.again;
            if now < full_until || wants_shared || sent_while_full {
                self.note_shared(call, now);
            }
        }
        // What was sent to a full server left no answer there, so that it could count twice if it is sent as to another one.
        if now < full_until || sent_while_full {
            return NewKeys::Share { has_some_room: self.has_some_room.load(Ordering::Relaxed) };
        }
        // Also before the server has said whether other processes let subjects share.
        let may_be_shared = wants_shared
            || now < self.shared_until.load(Ordering::Relaxed)
            || !self.is_told.load(Ordering::Relaxed);
        if may_be_shared { NewKeys::MakeOrShare } else { NewKeys::Make }
    }

    /// Whether the call may make shared accounts: its policies are among the first so many that asked.
    pub(crate) fn may_share(&self, call: &Call) -> bool {
        let mut sharing = self.sharing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names = call
            .operations
            .iter()
            .flat_map(|operation| &operation.charges)
            .map(|charge| charge.policy.name());
        names.all(|name| {
            sharing.contains(name) || sharing.len() < SHARING_POLICIES_MAX && sharing.insert(name.clone())
        })
    }

    /// The server had no room. False if nothing else can be sent to it.
    pub(crate) fn note_full(&self) -> bool {
        if self.is_old.load(Ordering::Relaxed) {
            return false;
        }
        self.full_until.store(self.now().saturating_add(micros(FULL_FOR)), Ordering::Relaxed);
        self.wake.notify_one();
        if !self.full_logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                event = "RateLimiterStoreFull",
                "Redis has no room for new keys: subjects without an account share one from now on. Raise maxmemory"
            );
        }
        true
    }

    /// The server does not know scripts that run while it is full.
    pub(crate) fn note_old(&self) {
        self.is_old.store(true, Ordering::Relaxed);
        self.full_until.store(0, Ordering::Relaxed);
    }

    /// Counts operations that a full server decided.
    pub(crate) fn count_while_full(&self, operations: usize) {
        self.while_full.fetch_add(u64::try_from(operations).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What metrics show of it.
    pub(crate) fn figures(&self) -> StoreFigures {
        let while_full = self.while_full.load(Ordering::Relaxed);
        let memory_used = Some(self.memory_used.load(Ordering::Relaxed)).filter(|used| *used > 0);
        let counts = (while_full > 0).then_some(("decided_while_full", while_full)).into_iter().collect();
        StoreFigures { counts, memory_used, ..StoreFigures::default() }
    }

    /// Notes what the server says of its memory.
    pub(crate) fn note_memory(&self, used: u64) {
        let before = self.memory_used.swap(used, Ordering::Relaxed);
        self.has_some_room.store(used > 0 && used <= SOME_ROOM_MAX, Ordering::Relaxed);
        if used >= MEMORY_ALARM && before < MEMORY_ALARM {
            tracing::warn!(
                event = "RateLimiterStoreFilling",
                percent = used / 10_000,
                "Redis uses four fifths of its maxmemory or more: raise it before new subjects must share accounts"
            );
        }
    }

    /// Whether the server counts as full now.
    pub(crate) fn is_full(&self) -> bool {
        self.now() < self.full_until.load(Ordering::Relaxed)
    }

    /// Remembers for how long what this call leaves in shared accounts may matter.
    fn note_shared(&self, call: &Call, now: u64) {
        let policies = call.operations.iter().flat_map(|operation| &operation.charges);
        let longest = policies.map(|charge| lifetime(&charge.policy)).max().unwrap_or(Span::ZERO);
        let until = now.saturating_add(longest.as_micros());
        self.shared_until.fetch_max(until, Ordering::Relaxed);
        if until > self.noted_until.load(Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }

    /// Tells other processes until when subjects may share accounts, and learns it from them. False: the server did not answer.
    pub(crate) async fn exchange_notice(&self, servers: &Servers, key: &str) -> bool {
        let shared_until = self.shared_until.load(Ordering::Relaxed);
        let lasts = match shared_until > self.noted_until.load(Ordering::Relaxed) {
            // A little longer: so it is not noted again for every call.
            true => {
                Duration::from_micros(shared_until.saturating_sub(self.now())).saturating_add(NOTED_AHEAD)
            }
            false => Duration::ZERO,
        };
        let may_be_full = !lasts.is_zero() && !self.is_old.load(Ordering::Relaxed);
        let mut notice = exchange(servers, key, lasts, may_be_full).await;
        if may_be_full && matches!(notice, Notice::Unknown) {
            // An older server reads no script that may run while it is full, and may have room.
            notice = exchange(servers, key, lasts, false).await;
        }
        let Notice::Lasts(left) = notice else { return false };
        let until = if left.is_zero() { 0 } else { self.now().saturating_add(micros(left)) };
        self.shared_until.fetch_max(until, Ordering::Relaxed);
        self.noted_until.fetch_max(until, Ordering::Relaxed);
        self.is_told.store(true, Ordering::Relaxed);
        true
    }

    fn now(&self) -> u64 {
        micros(self.started.elapsed())
    }
}

/// Whether an operation of this call may make no account.
pub(crate) fn shares(call: &Call) -> bool {
    let shares = |operation: &Operation| matches!(&operation.action, Action::Take(terms) if terms.new_accounts == NewAccounts::Share);
    call.operations.iter().any(shares)
}

/// Whether a call gives units back, and may have been applied before: a full server cannot tell.
pub(crate) fn refunds_again(call: &Call) -> bool {
    let refunds =
        |operation: &Operation| matches!(operation.action, Action::Settle { .. } | Action::Return { .. });
    call.again && call.operations.iter().any(refunds)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
