//! Packets of tunnels: a message goes through one as the packets of TCP over IPv4 that it is cut into. Left out: fragments, packets that
//! are lost and sent again, acknowledgements of TCP.

/// Headers of IPv4 (RFC 791 section 3.1) and TCP (RFC 9293 section 3.1) without options, in bytes: in the tunnel they are encrypted.
pub(crate) const INNER: u64 = 20 + 20;
/// Header of IPv4 around the tunnel.
pub(crate) const IP: u64 = 20;
/// Header of UDP (RFC 768).
pub(crate) const UDP: u64 = 8;
/// Bytes of a packet in the tunnel, its headers included: it fits an Ethernet of 1,500 with every header and padding of the tunnels
/// here, over IPv6 too.
pub(crate) const PACKET: u32 = 1_420;

/// The packets of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packets {
    /// Those that are full.
    pub(crate) full: u64,
    /// Bytes of a full one.
    pub(crate) each: u64,
    /// Bytes of the last one, which may be full itself.
    pub(crate) last: u64,
}

impl Packets {
    /// A message of `bytes` in packets of at most `packet`, which is above [`INNER`].
    pub(crate) fn of(bytes: u64, packet: u32) -> Self {
        let each = u64::from(packet);
        let room = each.saturating_sub(INNER).max(1);
        let full = bytes.div_ceil(room).saturating_sub(1);
        Self { full, each, last: INNER + bytes - full * room }
    }

    /// How many there are.
    pub(crate) const fn count(self) -> u64 {
        self.full + 1
    }

    /// The sum of something that follows from the bytes of a packet.
    pub(crate) fn sum(self, of: impl Fn(u64) -> u64) -> u64 {
        self.full * of(self.each) + of(self.last)
    }
}
