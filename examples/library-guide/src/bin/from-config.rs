//! A limiter from `tollway.toml`. A mistake in the file ends the program with a message that points at it.

use tollway::Limiter;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::from_config("tollway.toml").await?;
    let permit = limiter.take("adobe").await?;
    drop(permit); // the call is done
    Ok(())
}
