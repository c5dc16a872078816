//! Real servers that a test starts for itself, on free loopback ports and in temporary folders.
//!
//! A server is ready when `start` returns, and ends when its value is dropped, also when the test panics. If the test
//! process ends without dropping it, killed or because a `shared` server lives in a static, a watcher ends it. If a program
//! is not installed, the panic says what to install: a test without its server has not passed.
//!
//! ```no_run
//! use tollway_testkit::servers::RedisServer;
//!
//! let redis = RedisServer::start();
//! assert_eq!(redis.command(&["SET", "greeting", "hello"]), "OK");
//! redis.pause(); // accepts connections, answers nothing
//! redis.resume();
//! assert_eq!(redis.command(&["GET", "greeting"]), "hello");
//! ```

mod capture;
mod certificates;
mod cluster;
mod dynamo;
mod dynamo_emulator;
mod dynamo_local;
mod family;
mod log;
mod ministack;
mod ministack_queues;
mod move_tasks;
mod poll_until;
mod port;
mod postgres;
mod process;
mod program;
mod redis;
mod resp;
mod sentinel;
mod start;
mod used_rights;
mod valkey;
mod watcher;

pub use capture::{CapturedAnswer, CapturedRequest, CapturingServer};
pub use certificates::{certificates, self_signed_certificate};
pub use cluster::RedisCluster;
pub use dynamo::DynamoServer;
pub use ministack::{Ministack, QueueClock, python_tool};
pub use move_tasks::MoveTaskFront;
pub use postgres::PostgresServer;
pub use redis::RedisServer;
pub use sentinel::RedisSentinel;
pub use used_rights::{Right, UsedRights};
pub use valkey::ValkeyServer;

pub(crate) use poll_until::until;
pub(crate) use port::free_port;
