//! The bounds of jobs and of what is kept about them.

/// The longest key. An S3 key has at most 1,024 bytes, and every stage appends its name and an index.
pub const KEY_BYTES_MAX: usize = 2_048;

/// The longest name of a group: as long as an S3 key.
pub const GROUP_BYTES_MAX: usize = 1_024;

/// The largest data of a job: the largest message of SQS. Larger data belongs into a file whose name the job carries.
pub const JOB_BYTES_MAX: usize = 1 << 20;

/// The longest text of a cost: some policies with some units each.
pub const COST_BYTES_MAX: usize = 512;

/// How many jobs one call of `enqueue` may bring, and how many claims one `claim`, `renew` or `release` may name. A
/// transaction of that size takes some 10 ms.
pub const BATCH_MAX: usize = 1_000;

/// How many jobs a finished job may hand on: the chunks of a very large file.
pub const OUTPUTS_MAX: usize = 10_000;

/// How much data one `enqueue` or one `finish` may bring. It is kept in memory until it is committed.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// How much data of finished answers is kept in memory while the engine is away.
pub const KEPT_BYTES_MAX: usize = 64 << 20;

/// How many attempts of a job are kept, the newest first. More than any sensible number of tries.
pub const EVIDENCE_MAX: usize = 20;

/// The longest error text of an attempt: a line that fits a list. The rest is cut off.
pub const ERROR_BYTES_MAX: usize = 1_024;

/// The longest further detail of an attempt, such as a response body or output of a process. The rest is cut off.
pub const DETAIL_BYTES_MAX: usize = 4_096;

/// The longest name of a worker: host, process and number.
pub const WORKER_BYTES_MAX: usize = 256;

/// The most jobs on a page of `scan` and `results`, and in one step of `change` and `purge`.
pub const PAGE_MAX: usize = 1_000;

/// How many stages an engine knows. Every one has counters, and is looked at by each worker.
pub const STAGES_MAX: usize = 256;
