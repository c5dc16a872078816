//! The guard of subprocess handlers, as a program of its own.

fn main() {
    tollway_pipeline::handler::guard::run_if_asked();
}
