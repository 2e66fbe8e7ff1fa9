//! A universal hash of payloads with carry-less multiplication (CLNH: D. Lemire and O. Kaser,
//! "Faster 64-bit universal hashing using carry-less multiplications", 2016). Blocks are hashed
//! with CLNH, and the results combined as coefficients of a polynomial. Two different payloads of
//! equal length, chosen without knowledge of the key, collide with probability of about 2^-60. The
//! hash alone authenticates nothing: [`crate::mac`] masks it.

/// Words of a block, and of its key. With this many, combining the blocks costs next to nothing.
const BLOCK: usize = 512;

/// The secret key: a random word for each word of a block, and one for the polynomial.
pub struct ClnhKey {
    block: [u64; BLOCK],
    point: u64,
    multiplier: Multiplier,
}

/// How the processor multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Multiplier {
    /// Integer products.
    Portable,
    /// PCLMULQDQ: one pair of words at a time.
    #[cfg(target_arch = "x86_64")]
    Pclmul,
    /// VPCLMULQDQ: two pairs at a time.
    #[cfg(target_arch = "x86_64")]
    Vpclmul,
}

impl ClnhKey {
    /// From random words.
    pub fn new(mut word: impl FnMut() -> u64) -> Self {
        Self {
            block: std::array::from_fn(|_| word()),
            point: word(),
            multiplier: Multiplier::best(),
        }
    }

    /// The hash of a payload. It does not cover the length, which the header's MAC does.
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        match self.multiplier {
            Multiplier::Portable => self.hash_portable(bytes),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Multiplier::best` has found the instruction.
            Multiplier::Pclmul => unsafe { x86::hash_pclmul(self, bytes) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Multiplier::Vpclmul => unsafe { x86::hash_vpclmul(self, bytes) },
        }
    }

    /// The same hash without processor support.
    pub fn hash_portable(&self, bytes: &[u8]) -> u64 {
        let mut sum = 0;
        for block in bytes.chunks(8 * BLOCK) {
            let mut product = 0;
            for (pair, key) in block.chunks(16).zip(self.block.chunks_exact(2)) {
                let mut padded = [0; 16];
                padded[..pair.len()].copy_from_slice(pair);
                let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| padded[at + i]));
                product ^= multiply(word(0) ^ key[0], word(8) ^ key[1]);
            }
            sum = reduce(multiply(sum, self.point)) ^ reduce(product);
        }
        sum
    }
}

impl std::fmt::Debug for ClnhKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Every fifth bit.
const EVERY_FIFTH: u128 = 0x2108_4210_8421_0842_1084_2108_4210_8421;

/// The product of two polynomials over GF(2), from integer products, in constant time. The bits of
/// each factor are five apart, so the sums of up to thirteen bits do not overlap; the lowest bit of
/// each is the result. (T. Pornin's BearSSL does the same with four.)
fn multiply(a: u64, b: u64) -> u128 {
    let mut sums = [0; 5];
    for i in 0..5 {
        for j in 0..5 {
            sums[(i + j) % 5] ^= u128::from(a & (EVERY_FIFTH << i) as u64) * u128::from(b & (EVERY_FIFTH << j) as u64);
        }
    }
    (0..5).fold(0, |all, i| all | sums[i] & EVERY_FIFTH << i)
}

/// The remainder modulo x^64 + x^4 + x^3 + x + 1.
fn reduce(product: u128) -> u64 {
    let (low, high) = (product as u64, (product >> 64) as u64);
    let fold = |high: u64| u128::from(high) ^ u128::from(high) << 1 ^ u128::from(high) << 3 ^ u128::from(high) << 4;
    let once = fold(high);
    let twice = fold((once >> 64) as u64);
    low ^ once as u64 ^ twice as u64
}

impl Multiplier {
    #[cfg(target_arch = "x86_64")]
    fn best() -> Self {
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("pclmulqdq")
        {
            Self::Vpclmul
        } else if is_x86_feature_detected!("pclmulqdq") {
            Self::Pclmul
        } else {
            Self::Portable
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn best() -> Self {
        Self::Portable
    }
}

// The path serves the benchmarks, which include this file.
#[cfg(target_arch = "x86_64")]
#[path = "clnh/x86.rs"]
mod x86;

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ClnhKey {
        let mut state = 1u64;
        ClnhKey::new(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        })
    }

    /// The multipliers of this processor.
    fn multipliers() -> Vec<Multiplier> {
        #[cfg(target_arch = "x86_64")]
        return match Multiplier::best() {
            Multiplier::Vpclmul => vec![Multiplier::Pclmul, Multiplier::Vpclmul],
            Multiplier::Pclmul => vec![Multiplier::Pclmul],
            Multiplier::Portable => vec![],
        };
        #[cfg(not(target_arch = "x86_64"))]
        vec![]
    }

    #[test]
    fn products_and_remainders() {
        assert_eq!(multiply(0b101, 0b11), 0b1111);
        assert_eq!(multiply(u64::MAX, 1 << 63), u128::from(u64::MAX) << 63);
        let mut state = 1u64;
        for _ in 0..1000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (a, b) = (state, state.rotate_left(29) ^ state >> 7);
            let bits = (0..64).filter(|bit| b >> bit & 1 != 0);
            assert_eq!(multiply(a, b), bits.fold(0, |sum, bit| sum ^ u128::from(a) << bit));
        }
        // The largest sums.
        assert_eq!(multiply(u64::MAX, u64::MAX), u128::MAX / 3);
        assert_eq!(reduce(1 << 64), 0b1_1011);
        assert_eq!(reduce(u128::from(u64::MAX)), u64::MAX);
        // x^127 = x^63 · x^64
        assert_eq!(reduce(1 << 127), reduce(u128::from(reduce(1 << 64)) << 63));
    }

    #[test]
    fn all_multipliers_agree() {
        let reference = key();
        let data: Vec<u8> = (0..70_000u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
        for bytes in (0..70).chain([
            1008, 1023, 1024, 1025, 1040, 2048, 4080, 4095, 4096, 4097, 4112, 8192, 65_472, 70_000,
        ]) {
            for multiplier in multipliers() {
                let key = ClnhKey { multiplier, ..key() };
                assert_eq!(
                    key.hash(&data[..bytes]),
                    reference.hash_portable(&data[..bytes]),
                    "{bytes} {multiplier:?}"
                );
            }
        }
    }

    #[test]
    fn each_bit_counts() {
        let key = key();
        for bytes in [1, 15, 16, 17, 1024, 1500, 4100] {
            let mut data = vec![7; bytes];
            let mut seen = std::collections::HashSet::from([key.hash(&data)]);
            for bit in 0..8 * bytes {
                data[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(key.hash(&data)), "bit {bit} of {bytes} bytes");
                data[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
