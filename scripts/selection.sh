# What ./test builds and how. Sourced by ./test and by scripts that use its build, so that nothing is built twice: another
# choice of packages, features or wrapper would be another build.
# shellcheck shell=bash

# All is built once here: what would make a second build quicker takes gigabytes.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
# Clippy as the compiler of our crates, so that one build lints and generates code. `cargo clippy` besides `cargo test` would
# build every dependency twice, once to check it and once to link it. CLIPPY_ARGS is what `cargo clippy -- -D warnings` sets.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver
export CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
ours=(--workspace --exclude tollway-bench)
# Stores that are features are tested too, and TLS.
stores=(--features tollway/redis-tls,tollway/postgres-tls,tollway/dynamodb,tollway/aws,tollway-cli/redis-tls,tollway-cli/postgres-tls,tollway-cli/dynamodb,tollway-cli/aws,tollway-cli/tls,tollway-server/tls,tollway-tower/consumers)
