//! The content of permits, without their signature.

use tollway_server::fuzz::ticket;

use crate::fuzz;

/// The offset of the flags.
const FLAGS: usize = 1;

/// T19: a ticket survives a round trip. Its bytes need not: unknown flags are dropped, and times beyond the maximum become
/// the maximum.
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
