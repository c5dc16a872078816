# Packages, features and compiler wrapper of ./test. Scripts that reuse its build source this file: any other choice would
# rebuild everything.
# shellcheck shell=bash

# Incremental files take gigabytes, and this builds once.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
# Clippy as the compiler of the workspace, so that one build lints and generates code. A separate `cargo clippy` would build
# every dependency twice. CLIPPY_ARGS is what `cargo clippy -- -D warnings` sets.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver
export CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
ours=(--workspace --exclude tollway-bench)
# Optional stores and TLS are tested, too.
stores=(--features tollway/redis-tls,tollway/postgres-tls,tollway/dynamodb,tollway/aws,tollway-cli/redis-tls,tollway-cli/postgres-tls,tollway-cli/dynamodb,tollway-cli/aws,tollway-cli/tls,tollway-client/middleware,tollway-client/blocking,tollway-server/consumers,tollway-server/tls,tollway-tower/consumers,adobe-pdf/s3,adobe-pdf/sqs,gemini-translation/dynamodb)
