# Rust tests: unit, conformance and documentation tests in both flavours.
. "$(dirname -- "$0")/lib.sh"
cd "$ROOT" || exit 1
SHOW_LINES=60
CARGO_TARGET_DIR=$BUILD/unit
export CARGO_TARGET_DIR

conduits=$("$ROOT/scripts/build/conduits.sh" --features)

# rust_tests OPTION...: of all crates but two, which have no tests, but examples, which would be
# built: the libraries.
rust_tests() {
    timeout 1200 cargo test --quiet --locked --workspace --exclude gasnet-conduit-any --exclude gasnet-libraries \
        --features "$conduits" "$@"
}

attempt "unit tests" rust_tests
if [ "$SCOPE" = all ]; then
    attempt "fuzzer" env MINUTES=10 ROUNDS=1000000 timeout 3600 sh "$ROOT/scripts/check/fuzz.sh"
    set --
else
    # Networks have no checks of their own.
    set -- --exclude 'gasnet-conduit-*' --exclude 'emulator-*'
fi
attempt "unit tests, debug checks" rust_tests --all-features "$@"

finish
