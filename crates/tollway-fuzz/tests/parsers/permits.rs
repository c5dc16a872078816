//! Permits, as they are below their seal.

use tollway_server::fuzz::ticket;

use crate::fuzz;

/// Where the flags are.
const FLAGS: usize = 1;

/// T19: a ticket that is written again is the same ticket. Not every byte is: flags that mean nothing are left out, and times
/// that will never come are one time.
#[test]
fn permits() {
    fuzz("permits", |input| match ticket(input) {
        None => format!("none {:?}", input.first().map(|version| *version == 1)),
        Some(written) => {
            assert_eq!(written.len(), input.len());
            assert_eq!(ticket(&written).as_ref(), Some(&written));
            format!("{:?} {}", written.get(FLAGS), written.len() / 64)
        }
    });
}
