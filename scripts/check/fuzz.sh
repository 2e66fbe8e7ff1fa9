#!/bin/sh
# fuzz.sh: more hostile input than `make check` tries, for all parsers of data from outside.
#   ROUNDS    inputs of each test that makes them at random (5000000), and SEED of the conduit's
#             (1): a test that fails says which it had
#   MINUTES   how long libFuzzer then looks for bytes that reach code which none has reached, in
#             all parsers together (10; 0: not at all)
#   TARGETS   names of parsers (all)
# It starts from proofs/fuzz/corpus and from what it has found before, which stays in
# $BUILD/fuzz/corpus. An input that panics, takes a minute, or makes a parser allocate 256 MiB at
# once or 2 GiB in all is kept in $BUILD/fuzz/found.
. "$(dirname -- "$0")/../common.sh"
cd "$ROOT"
for target in ${TARGETS:-}; do
    grep -rl 'FUZZ_TARGETS:' --include='*.rs' src conduit* job | xargs grep -q "(\"$target\"" ||
        { echo "fuzz: there is no parser '$target'" >&2; exit 2; }
done
GASNET_TEST_ROUNDS=${ROUNDS:-5000000} GASNET_TEST_SEED=${SEED:-1}
export GASNET_TEST_ROUNDS GASNET_TEST_SEED
# Optimised, with overflow checks and debug assertions.
CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_LTO=off
export CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS CARGO_PROFILE_RELEASE_LTO
for tests in "gasnet am::wire" "gasnet-conduit-ofi wire::" "gasnet-conduit-udp fuzz::"; do
    cargo test --quiet --locked --release --target-dir "$BUILD/fuzz" -p "${tests% *}" --lib -- "${tests#* }"
done

minutes=${MINUTES:-10}
[ "$minutes" != 0 ] || exit 0
host=$(rustc -vV | sed -n 's/^host: //p')
coverage=-Cpasses=sancov-module
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    coverage="$coverage -Cllvm-args=-sanitizer-coverage-$option"
done
# RUSTC_BOOTSTRAP=1 lets a stable compiler accept -Zsanitizer.
RUSTC_BOOTSTRAP=1 RUSTFLAGS="--cfg fuzzing $coverage -Zsanitizer=address" CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
    cargo build --quiet --locked --release --manifest-path proofs/fuzz/Cargo.toml --target "$host" \
        --target-dir "$BUILD/fuzz"
fuzzer=$BUILD/fuzz/$host/release/gasnet-fuzz
ASAN_OPTIONS=detect_leaks=0
export ASAN_OPTIONS
targets=${TARGETS:-$("$fuzzer")}

# share TARGET: its part of the time. Conversations need more of it than single messages.
share() { case $1 in udp-datagrams) echo 6 ;; *) echo 1 ;; esac }
shares=0 failed=0
for target in $targets; do shares=$((shares + $(share "$target"))); done
mkdir -p "$BUILD/fuzz/found" "$BUILD/fuzz/logs"
printf '%-18s %12s %9s %9s %9s\n' parser executions features corpus new
for target in $targets; do
    log=$BUILD/fuzz/logs/$target corpus=$BUILD/fuzz/corpus/$target seeds=proofs/fuzz/corpus/$target
    mkdir -p "$corpus"
    [ -d "$seeds" ] || seeds=
    FUZZ_TARGET=$target "$fuzzer" -max_total_time=$((1 + 60 * minutes * $(share "$target") / shares)) -max_len=4096 \
        -timeout=60 -rss_limit_mb=2048 -malloc_limit_mb=256 -artifact_prefix="$BUILD/fuzz/found/$target-" \
        -print_final_stats=1 "$corpus" ${seeds:+"$seeds"} >"$log" 2>&1 || {
        failed=1
        echo "$target fails:"
        tail -n 60 "$log"
    }
    awk -v target="$target" '
        /^#.*DONE/ {
            for (i = 1; i < NF; i++) {
                if ($i == "ft:") features = $(i + 1)
                if ($i == "corp:") corpus = $(i + 1)
            }
        }
        /^stat::number_of_executed_units/ { executions = $2 }
        /^stat::new_units_added/ { added = $2 }
        END {
            sub("/.*", "", corpus)
            printf "%-18s %12s %9s %9s %9s\n", target, executions, features, corpus, added
        }' "$log"
done
exit "$failed"
