//! Numbers by chance for the tests of the twin, the same on every machine.

/// SplitMix64.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // The state moves on by a constant: seeds that are mixed first give streams that do not overlap.
        Self(mixed(seed.wrapping_mul(0xD129_0D7E_6A3F_7C15)))
    }

    /// Above 0 and at most 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub(super) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = mixed(self.0);
        ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
