//! One limit for all processes that reach the same Redis.
#![allow(clippy::print_stdout, reason = "its output is in the guide")]

use tollway::{Limiter, Taken};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL")?;
    let limiter = Limiter::builder()
        .policy("api", ["2 requests / hour from first call"])?
        .store_at(&url.parse()?)?
        .build();
    match limiter.try_take("api").await? {
        Taken::Granted(_) => println!("granted"),
        Taken::Denied(denied) => println!("{denied}"),
    }
    Ok(())
}
