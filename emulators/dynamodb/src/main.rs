//! A DynamoDB without tables, for one test: prints its loopback port as one line, and ends when its stdin closes.
//!
//! The test process holds the other end of stdin, so the emulator ends with it, however that ends.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::{process, thread};

use dynoxide::Database;
use tokio::net::TcpListener;

fn main() -> Result<(), Box<dyn Error>> {
    thread::Builder::new().name("stdin".to_owned()).spawn(exit_when_stdin_closes)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve())
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    let tables = Database::memory()?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{port}")?;
    stdout.flush()?;
    dynoxide::server::serve_on(listener, tables).await;
    Ok(())
}

fn exit_when_stdin_closes() {
    let mut stdin = io::stdin();
    let mut ignored = [0; 64];
    loop {
        match stdin.read(&mut ignored) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => process::exit(0),
        }
    }
}
