# Rust tests: unit, conformance and documentation tests in both flavours.
. "$(dirname -- "$0")/lib.sh"
cd "$ROOT" || exit 1
SHOW_LINES=60
CARGO_TARGET_DIR=$BUILD/unit
export CARGO_TARGET_DIR

conduits=$("$ROOT/scripts/build/conduits.sh" --features)

attempt "unit tests" timeout 1200 cargo test --quiet --locked --workspace --features "$conduits"
if [ "$SCOPE" = all ]; then
    attempt "fuzzer" env MINUTES=1 ROUNDS=1000000 timeout 2400 sh "$ROOT/scripts/check/fuzz.sh"
    set --
else
    # Networks have no checks of their own.
    set -- --exclude 'gasnet-conduit-*' --exclude 'gasnet-emulator-*'
fi
attempt "unit tests, debug checks" timeout 1200 cargo test --quiet --locked --workspace \
    --all-features --features "$conduits" "$@"

finish
