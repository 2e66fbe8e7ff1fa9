# Formatting, clippy, shell syntax; in full also licences, sources and versions of others' crates.
. "$(dirname -- "$0")/lib.sh"
SHOW_LINES=60
attempt lint "$ROOT/scripts/lint.sh"
if [ "$SCOPE" = all ]; then
    attempt "crates of others" "$BUILD/cargo-deny/bin/cargo-deny" --manifest-path "$ROOT/Cargo.toml" --workspace \
        --locked --offline check bans licenses sources
fi
finish
