//! Every bound of the engine, with its reason.
//!
//! All numbers stay below 2^53 so that a store whose only number is a double (Lua in Redis) keeps them exact.

use crate::Span;

/// The largest amount or burst of a limit, and the largest cost: a thousand million million units.
pub const AMOUNT_MAX: u64 = 1_000_000_000_000_000;

/// Where a count saturates when settles lift it above its limit; also the last timestamp (the year 2255).
pub const COUNT_MAX: u64 = (1 << 53) - 1;

/// The shortest period: a store's clock and the network cannot measure less.
pub const PERIOD_MIN: Span = Span::from_millis(1);

/// The longest period of a duration: a leap year.
pub const PERIOD_MAX: Span = Span::from_days(366);

/// The most slots a concurrency limit may have: they are a list, and a take scans all of it.
pub const SLOTS_MAX: u64 = 10_000;

/// How long a slot lives after its grant unless the limit says `expires`.
pub const SLOT_EXPIRES_DEFAULT: Span = Span::from_secs(60);

/// The most limits a policy may have.
pub const LIMITS_PER_POLICY_MAX: usize = 16;

/// The most (policy, subject) pairs one take may name.
pub const CHARGES_PER_TAKE_MAX: usize = 16;

/// The most operations one batch may carry.
pub const OPERATIONS_PER_BATCH_MAX: usize = 1_024;

/// The longest name of a policy, a limit or a unit, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// The longest subject, in bytes.
pub const SUBJECT_BYTES_MAX: usize = 1_024;

/// The longest id a caller may give a take, in bytes.
pub const CALL_ID_BYTES_MAX: usize = 128;

/// How many callers' ids one account remembers; a take with one more is refused.
pub const CALL_IDS_MAX: usize = 1_024;

/// How long a caller's id is remembered.
pub const CALL_ID_REMEMBERED: Span = Span::from_mins(10);

/// How many refunded permits one account remembers; one more refund is dropped and counted.
pub const REFUNDS_MAX: usize = 1_024;

/// How long a refund of a limit without windows is remembered.
pub const REFUND_REMEMBERED: Span = Span::from_mins(10);

/// How many meters of removed limits an account keeps until they expire.
pub const ORPHANS_MAX: usize = 32;

/// The longest wait a policy may allow, and so the length of the queue in time.
pub const WAIT_MAX: Span = Span::from_days(1);

/// The longest wait of a policy that does not say: ten minutes.
pub const WAIT_DEFAULT: Span = Span::from_mins(10);

/// An edge is at most this part of its window (a twentieth).
pub const EDGE_PART_OF_PERIOD: u64 = 20;

/// The most rounds of the search for a time that fits all limits.
pub const SEARCH_STEPS_MAX: usize = 1_024;

/// The highest rate of an adaptive limit, in millionths of a call a second: a million calls a second.
pub const RATE_MAX: u64 = 1_000_000_000_000;

/// How long an account keeps what it has learned about a vendor after its last change.
pub const LEARNED_KEPT: Span = Span::from_days(30);

/// The longest time a vendor's word on what is left may last.
pub const CAP_MAX: Span = Span::from_days(31);

/// The longest state of a controller, in bytes.
pub const CONTROLLER_BYTES_MAX: usize = 1_024;

/// The most settings a store keeps: every process reads all of them.
pub const SETTINGS_MAX: usize = 1_024;

/// The most accounts that a command lists.
pub const ACCOUNTS_LISTED_MAX: usize = 10_000;

/// From how much of its memory on a store raises an alarm, in millionths: time is left to raise the bound.
pub const MEMORY_ALARM: u64 = 800_000;

/// With how many known names an unknown one is compared, to suggest the nearest: a request may bring any number of them.
pub const NAMES_COMPARED_MAX: usize = 1_024;
