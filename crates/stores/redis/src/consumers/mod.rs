//! The layout `consumers`: counters under the keys of a system that already runs, `SUBJECT_PER_MINUTE` and its sisters,
//! with plain counts as values and the key's TTL as the window. Both count in the same keys, and `redis-cli` reads them.
//!
//! What fits such keys is in `fit.rs`; `link.rs` sends calls to a script of its own, `script/*.lua`, which keeps to the
//! engine's rules as far as the keys can carry them: all limits together or none, once, and corrected only in the window
//! it was booked in. There is no queue, no lease and no shadow.
//!
//! | key | what | lives |
//! |---|---|---|
//! | `SUBJECT_PER_MINUTE` | a count, as `INCR` writes it | until the window ends |
//! | `tollway:1:{s:SUBJECT}:POLICY:ids` | callers' ids, a hash | 10 minutes |
//! | `tollway:1:{s:SUBJECT}:POLICY:refunds` | permits that were settled or returned and could be again, a sorted set | until that cannot matter |
//! | `tollway:1:{s:SUBJECT}:POLICY:WRITER` | the last call of one process, and its answer | 60 s |
//!
//! The companions have the store's prefix, so that `KEYS SUBJECT_*` lists counters only.

mod fit;
mod link;
mod period;
mod replaced;
mod request;
mod script;

pub(crate) use fit::check;
pub(crate) use link::ConsumersLink;
pub use period::key as counter_key;
