//! A network that fails on demand: a proxy between a client and a real server.
//!
//! ```no_run
//! use tollway_testkit::faults::{Fault, FaultProxy};
//! use tollway_testkit::servers::RedisServer;
//!
//! let redis = RedisServer::start();
//! let proxy = FaultProxy::to(redis.addr());
//! // ... a client connects to proxy.addr() ...
//! proxy.set(Fault::LoseReplies { times: Some(1) });
//! // ... the next command is applied, and its client gets no reply ...
//! assert_eq!(proxy.counts().replies_lost, 1);
//! ```
//!
//! Delayed bytes keep their order and pass when the fault is cleared, as in a network that loses packets for a while. So a
//! request may arrive long after its client has timed out.

mod counts;
mod fault;
mod faulty_aws;
mod front;
mod lane;
mod pair;
mod proxy;
mod relay;
mod wire;

pub use counts::Counts;
pub use fault::{Fault, Way};
pub use faulty_aws::{FaultyAws, FaultyAwsCounts};
pub use front::{AwsFront, Treatment};
pub use proxy::FaultProxy;
