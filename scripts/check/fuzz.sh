#!/bin/sh
# fuzz.sh: more of what is not as it should be than `make check` tries, for whatever reads what
# comes from elsewhere.
#   ROUNDS    inputs of each test that makes them at random (5000000), and SEED of the conduit's
#             (1): a test that fails says which it had
#   MINUTES   how long libFuzzer then looks for datagrams of members of a job that reach code which
#             none has reached (5; 0: not at all)
# What it found of interest stays in $BUILD/fuzz/corpus, for the next time; what breaks something in
# $BUILD/fuzz/found.
. "$(dirname -- "$0")/../common.sh"
cd "$ROOT"
GASNET_TEST_ROUNDS=${ROUNDS:-5000000} GASNET_TEST_SEED=${SEED:-1}
export GASNET_TEST_ROUNDS GASNET_TEST_SEED
# Overflows are to be seen, and it is to be fast.
CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_LTO=off
export CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS CARGO_PROFILE_RELEASE_LTO
for tests in "gasnet am::wire" "gasnet-conduit-ofi wire::" "gasnet-conduit-udp fuzz::"; do
    cargo test --quiet --locked --release --target-dir "$BUILD/fuzz" -p "${tests% *}" --lib -- "${tests#* }"
done

minutes=${MINUTES:-5}
[ "$minutes" != 0 ] || exit 0
host=$(rustc -vV | sed -n 's/^host: //p')
coverage=-Cpasses=sancov-module
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    coverage="$coverage -Cllvm-args=-sanitizer-coverage-$option"
done
# RUSTC_BOOTSTRAP=1 lets a stable compiler accept -Zsanitizer.
RUSTC_BOOTSTRAP=1 RUSTFLAGS="--cfg fuzzing $coverage -Zsanitizer=address" CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
    cargo build --quiet --locked --release --manifest-path fuzz/Cargo.toml --target "$host" --target-dir "$BUILD/fuzz"
mkdir -p "$BUILD/fuzz/corpus" "$BUILD/fuzz/found"
ASAN_OPTIONS=detect_leaks=0 "$BUILD/fuzz/$host/release/gasnet-fuzz" -max_total_time=$((60 * minutes)) -max_len=4096 \
    -artifact_prefix="$BUILD/fuzz/found/" -print_final_stats=1 "$BUILD/fuzz/corpus" >"$BUILD/fuzz/log" 2>&1 || {
    tail -n 60 "$BUILD/fuzz/log"
    exit 1
}
grep -a '^#.*DONE\|^stat::number_of_executed_units' "$BUILD/fuzz/log"
