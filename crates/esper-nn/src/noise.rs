//! Where the randomness of forward passes comes from.

/// A stream of keys. Whatever is random in a forward pass (dropout, Gumbel noise) takes one and is decided by it, so the
/// same stream gives the same pass, on any number of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noise {
    state: u64,
}

impl Noise {
    /// The stream that a seed begins.
    pub fn new(seed: u64) -> Self {
        Noise { state: seed }
    }

    /// The next key.
    pub fn key(&mut self) -> u64 {
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}
