//! The hash slot of a key, as every node of a Cluster computes it.

/// The slots that the nodes of a Cluster divide.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key: of the part between its first brace and the next closing one, if there is any, else of all of it.
pub(crate) fn of_key(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    of_tag(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes())
}

/// The slot of a hash tag: CRC-16 (XMODEM).
pub(crate) fn of_tag(tag: &[u8]) -> u16 {
    let step = |crc: u16| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    let crc =
        tag.iter().fold(0u16, |crc, byte| (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| step(crc)));
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `CLUSTER KEYSLOT` answers.
    #[test]
    fn slots_are_those_of_a_cluster() {
        assert_eq!((of_key("123456789"), of_key("foo")), (12_739, 12_182));
        assert_eq!(of_key("tollway:1:{foo}:policy"), of_key("foo"));
        assert_eq!(of_key("{}foo"), of_tag(b"{}foo"), "an empty tag is none");
        assert_eq!(of_key("{}foo{bar}"), of_tag(b"{}foo{bar}"));
        assert_eq!(of_key("a{b"), of_tag(b"a{b"));
    }
}
