#!/bin/sh
# lint.sh: formatting, clippy with every warning an error (both flavours), and the shell scripts' syntax.
. "$(dirname -- "$0")/common.sh"

cd "$ROOT"
target=$BUILD/lint
cargo fmt --all -- --check
cargo fmt --manifest-path fuzz/Cargo.toml -- --check
cargo clippy --quiet --locked --target-dir "$target" --workspace --all-targets -- -D warnings
cargo clippy --quiet --locked --target-dir "$target" --workspace --all-targets --all-features -- -D warnings
for script in scripts/*.sh scripts/check/*.sh; do
    [ ! -f "$script" ] || sh -n "$script"
done
python3 -B scripts/check/levels.py --selftest
# --report lists the uses that break the levels without failing.
python3 -B scripts/check/levels.py --report
# The marker objects are compiled in every mode with warnings as errors by the header check and by package-lib.sh.
echo "lint: clean"
