//! The hash with the carry-less multiplication of x86-64.
// Up to Rust 1.86 every intrinsic is unsafe. Later ones are safe in functions with the target
// feature, where an unsafe block would be an unused one.
#![allow(unsafe_op_in_unsafe_fn)]

use super::{reduce, ClnhKey, BLOCK};
use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256i, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_setzero_si256,
    _mm256_xor_si256, _mm_clmulepi64_si128, _mm_loadu_si128, _mm_set_epi64x, _mm_setzero_si128, _mm_xor_si128,
};

/// One pair of words at a time.
///
/// # Safety
/// The processor has PCLMULQDQ.
#[target_feature(enable = "pclmulqdq,sse2")]
pub unsafe fn hash_pclmul(key: &ClnhKey, bytes: &[u8]) -> u64 {
    let mut sum = 0;
    for block in bytes.chunks(8 * BLOCK) {
        // SAFETY: the processor has the instruction.
        sum = unsafe { append_block(key, sum, sum_products(&key.block, block)) };
    }
    sum
}

/// Two pairs of words at a time, for each group of eight pairs.
///
/// # Safety
/// The processor has PCLMULQDQ, AVX2 and VPCLMULQDQ.
#[target_feature(enable = "pclmulqdq,avx2")]
pub unsafe fn hash_vpclmul(key: &ClnhKey, bytes: &[u8]) -> u64 {
    let mut sum = 0;
    for block in bytes.chunks(8 * BLOCK) {
        let mut sums = [_mm256_setzero_si256(); 4];
        let whole = block.len() / 128;
        for i in 0..whole {
            for (j, sum) in sums.iter_mut().enumerate() {
                let at = 4 * i + j;
                // SAFETY: 32 bytes at 32 × `at` are inside the block and inside the key, which is
                // as long.
                let (data, words) = unsafe {
                    (
                        _mm256_loadu_si256(block.as_ptr().cast::<__m256i>().add(at)),
                        _mm256_loadu_si256(key.block.as_ptr().cast::<__m256i>().add(at)),
                    )
                };
                let mixed = _mm256_xor_si256(data, words);
                let product: __m256i;
                // SAFETY: the processor has the instruction, which writes its result only. (The
                // intrinsic is in Rust 1.89 and later.)
                unsafe {
                    asm!("vpclmulqdq {}, {}, {}, 0x10", out(ymm_reg) product, in(ymm_reg) mixed, in(ymm_reg) mixed,
                         options(pure, nomem, nostack, preserves_flags));
                }
                *sum = _mm256_xor_si256(*sum, product);
            }
        }
        let [a, b, c, d] = sums;
        let all = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
        let product = _mm_xor_si128(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
        // SAFETY: the processor has the instruction.
        sum = unsafe {
            let rest = sum_products(&key.block[16 * whole..], &block[128 * whole..]);
            append_block(key, sum, _mm_xor_si128(product, rest))
        };
    }
    sum
}

/// Appends a coefficient to the polynomial.
///
/// # Safety
/// The processor has PCLMULQDQ.
#[target_feature(enable = "pclmulqdq,sse2")]
#[inline]
unsafe fn append_block(key: &ClnhKey, sum: u64, product: __m128i) -> u64 {
    let point = _mm_set_epi64x(0, key.point as i64);
    let times = _mm_clmulepi64_si128(_mm_set_epi64x(0, sum as i64), point, 0);
    reduce(as_number(times)) ^ reduce(as_number(product))
}

fn as_number(v: __m128i) -> u128 {
    // SAFETY: both types are 16 bytes of any value.
    unsafe { std::mem::transmute(v) }
}

/// The sum of the products of pairs of words, each XORed with the key, which is no shorter. The
/// last pair is padded with zeros.
///
/// # Safety
/// The processor has PCLMULQDQ.
#[target_feature(enable = "pclmulqdq,sse2")]
#[inline]
unsafe fn sum_products(key: &[u64], bytes: &[u8]) -> __m128i {
    let whole = bytes.len() / 16;
    let rest = &bytes[16 * whole..];
    let step = |at: *const u8, i: usize, sum: __m128i| {
        // SAFETY: a pair of words at `at`, and pair `i` of the key, which has as many.
        let (data, words) = unsafe {
            (
                _mm_loadu_si128(at.cast()),
                _mm_loadu_si128(key.as_ptr().cast::<__m128i>().add(i)),
            )
        };
        let mixed = _mm_xor_si128(data, words);
        _mm_xor_si128(sum, _mm_clmulepi64_si128(mixed, mixed, 0x10))
    };
    // SAFETY: pair `i` is one of the whole pairs.
    let pair = |i: usize, sum| step(unsafe { bytes.as_ptr().add(16 * i) }, i, sum);
    // Four independent sums, so that a multiplication need not wait for the one before.
    let mut sums = [_mm_setzero_si128(); 4];
    for i in 0..whole / 4 {
        let [a, b, c, d] = sums;
        sums = [
            pair(4 * i, a),
            pair(4 * i + 1, b),
            pair(4 * i + 2, c),
            pair(4 * i + 3, d),
        ];
    }
    for i in whole / 4 * 4..whole {
        sums[0] = pair(i, sums[0]);
    }
    if !rest.is_empty() {
        let mut padded = [0; 16];
        padded[..rest.len()].copy_from_slice(rest);
        sums[0] = step(padded.as_ptr(), whole, sums[0]);
    }
    let [a, b, c, d] = sums;
    _mm_xor_si128(_mm_xor_si128(a, b), _mm_xor_si128(c, d))
}
