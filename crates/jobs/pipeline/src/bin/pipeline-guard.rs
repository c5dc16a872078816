//! The guard of subprocess handlers as a program of its own, for programs whose `main` cannot call it.

fn main() {
    tollway_pipeline::handler::guard::run_if_asked();
}
