#!/bin/sh
# fuzz.sh [ROUNDS]: the parsers' random-input tests with more rounds than in `make check` (the inputs are the same in every run).
. "$(dirname -- "$0")/common.sh"
cd "$ROOT"
GASNET_TEST_ROUNDS=${1:-50000000}
export GASNET_TEST_ROUNDS
cargo test --quiet --locked --release --target-dir "$BUILD/unit" -p gasnet --lib -- am::wire
