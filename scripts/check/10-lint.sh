# Formatting, clippy, shell syntax; licences, sources and versions of others' crates.
. "$(dirname -- "$0")/lib.sh"
in_check_all "lint (also make lint)"
SHOW_LINES=60
attempt lint "$ROOT/scripts/lint.sh"
attempt "crates of others" "$BUILD/cargo-deny/bin/cargo-deny" --manifest-path "$ROOT/Cargo.toml" --workspace \
    --locked --offline check bans licenses sources
finish
