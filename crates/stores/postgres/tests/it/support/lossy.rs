//! A network that carries a message to the server and loses the answer: a proxy that closes a connection just after it
//! has passed on a chosen word.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub(crate) struct LossyNetwork {
    pub(crate) addr: SocketAddr,
    losses: Arc<AtomicUsize>,
}

impl LossyNetwork {
    /// Passes on to the server, and loses the first `losses` answers to what holds this word.
    pub(crate) fn before(server: SocketAddr, word: &'static str, losses: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let losses = Arc::new(AtomicUsize::new(losses));
        let left = Arc::clone(&losses);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let left = Arc::clone(&left);
                thread::spawn(move || carry(client, server, word, &left));
            }
        });
        Self { addr, losses }
    }

    /// How many answers are still to be lost.
    pub(crate) fn losses_left(&self) -> usize {
        self.losses.load(Ordering::SeqCst)
    }
}

fn carry(client: TcpStream, server: SocketAddr, word: &str, left: &AtomicUsize) {
    let Ok(server) = TcpStream::connect(server) else { return };
    let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let (mut client, mut server) = (client, server);
    let mut bytes = [0; 65_536];
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        let said = bytes[..count].windows(word.len()).any(|part| part == word.as_bytes());
        let loses =
            said && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if loses {
            // The client hears nothing more; the server reads all that was sent.
            let _ = client.shutdown(Shutdown::Both);
        }
        if server.write_all(&bytes[..count]).is_err() || loses {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Write);
}
