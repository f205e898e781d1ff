//! Numbers that look random and are the same in every run.

use token::Entropy;

/// A generator that anyone can foresee: for tests alone.
#[derive(Clone, Copy, Debug)]
pub struct Counting(pub u64);

impl Entropy for Counting {
    fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (self.0 >> 56) as u8;
        }
    }
}
