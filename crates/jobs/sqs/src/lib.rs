//! Pipelines on Amazon SQS: an [`SqsEngine`] has a queue for every stage and a ledger in a DynamoDB table, for workers on many
//! machines. A [`LambdaWorker`](lambda::LambdaWorker) works on them in functions of AWS Lambda.
//!
//! A program that opens pipelines of any kind hands [`open`] to [`EngineOpener`](tollway_pipeline::EngineOpener):
//!
//! ```
//! let opener = tollway_pipeline::EngineOpener::default().with_sqs(tollway_sqs::open);
//! ```

mod engine;
pub mod lambda;

pub use engine::{MOVES_PER_SECOND_MAX, MoveProgress, MoveState, MoveTask, SqsEngine, connect, open};
