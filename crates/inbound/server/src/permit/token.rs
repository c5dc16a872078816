//! A ticket as bytes, and back. Numbers are big-endian, texts come after their length.

use tollway::core::{Booking, PermitId};
use tollway::ticket::{Ticket, TicketCharge};
use tollway::{Name, Subject, Timestamp};

/// The first byte: what the others mean.
const VERSION: u8 = 1;

const UNBOOKED: u8 = 1;
const LEASED: u8 = 2;
/// The count of grants of a rate follows the times.
const RATED: u8 = 4;

/// The bytes of a ticket; nothing for one that is larger than any take.
pub(super) fn write(ticket: &Ticket) -> Option<Vec<u8>> {
    let Booking { permit, granted_at, at, good_until } = ticket.booking;
    let mut bytes = Vec::with_capacity(128);
    let is_rated = ticket.rate_grants > 0;
    let flags = [(ticket.unbooked, UNBOOKED), (ticket.leased, LEASED), (is_rated, RATED)];
    bytes.extend([VERSION, flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum()]);
    bytes.extend(permit.0.to_be_bytes());
    for time in [granted_at, at, good_until] {
        bytes.extend(time.as_micros().to_be_bytes());
    }
    if is_rated {
        bytes.extend(ticket.rate_grants.to_be_bytes());
    }
    bytes.push(u8::try_from(ticket.charges.len()).ok()?);
    for party in &ticket.charges {
        write_text(party.policy.as_str(), &mut bytes)?;
        write_text(party.subject.as_str(), &mut bytes)?;
        bytes.push(u8::try_from(party.cost.len()).ok()?);
        for (unit, amount) in &party.cost {
            write_text(unit.as_str(), &mut bytes)?;
            bytes.extend(amount.to_be_bytes());
        }
    }
    Some(bytes)
}

fn write_text(text: &str, bytes: &mut Vec<u8>) -> Option<()> {
    bytes.extend(u16::try_from(text.len()).ok()?.to_be_bytes());
    bytes.extend(text.as_bytes());
    Some(())
}

/// The ticket that the bytes are; nothing if they are none. They are checked as if a stranger had written them, although
/// none can.
pub(super) fn read(bytes: &[u8]) -> Option<Ticket> {
    let mut rest = Rest(bytes);
    let [version, flags] = rest.take()?;
    let permit = PermitId(u128::from_be_bytes(rest.take()?));
    let [granted_at, at, good_until] = [rest.time()?, rest.time()?, rest.time()?];
    let rate_grants = match flags & RATED {
        0 => 0,
        // One way to write each ticket.
        _ => Some(u64::from_be_bytes(rest.take()?)).filter(|count| *count > 0)?,
    };
    let [parties] = rest.take()?;
    let parties = (0..parties).map(|_| rest.party()).collect::<Option<Vec<_>>>()?;
    let whole = version == VERSION && rest.0.is_empty() && !parties.is_empty();
    whole.then_some(Ticket {
        booking: Booking { permit, granted_at, at, good_until },
        unbooked: flags & UNBOOKED != 0,
        leased: flags & LEASED != 0,
        rate_grants,
        charges: parties,
    })
}

/// What has not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::from(u16::from_be_bytes(self.take()?));
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn time(&mut self) -> Option<Timestamp> {
        Some(Timestamp::from_micros(u64::from_be_bytes(self.take()?)))
    }

    fn party(&mut self) -> Option<TicketCharge> {
        let policy = Name::new(self.text()?).ok()?;
        let subject = Subject::new(self.text()?).ok()?;
        let [units] = self.take()?;
        let unit = |_| Some((Name::new(self.text()?).ok()?, u64::from_be_bytes(self.take()?)));
        let cost = (0..units).map(unit).collect::<Option<Vec<_>>>()?;
        Some(TicketCharge { policy, subject, cost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(parties: usize) -> Ticket {
        let party = |number: usize| TicketCharge {
            policy: Name::new(&format!("policy-{number}")).unwrap(),
            subject: Subject::new(&"ä".repeat(number)).unwrap(),
            cost: vec![(Name::new("requests").unwrap(), 1), (Name::new("tokens").unwrap(), u64::MAX)],
        };
        let time = Timestamp::from_micros;
        let booking = Booking {
            permit: PermitId(u128::MAX - 5),
            granted_at: time(1),
            at: time(2),
            good_until: Timestamp::MAX,
        };
        Ticket {
            booking,
            unbooked: parties == 1,
            leased: parties == 2,
            rate_grants: if parties == 1 { 0 } else { u64::MAX },
            charges: (0..parties).map(party).collect(),
        }
    }

    #[test]
    fn a_ticket_comes_back_as_it_was() {
        for parties in [1, 2, 16] {
            let bytes = write(&ticket(parties)).unwrap();
            assert_eq!(read(&bytes).unwrap(), ticket(parties));
        }
    }

    #[test]
    fn nothing_else_is_a_ticket() {
        let bytes = write(&ticket(2)).unwrap();
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_none(), "{length}");
        }
        assert!(read(&[&bytes[..], &[0]].concat()).is_none());
        let mut other_version = bytes.clone();
        other_version[0] = 2;
        assert!(read(&other_version).is_none());
        assert!(read(&write(&ticket(0)).unwrap()).is_none());
    }
}
