# Rust tests: unit, conformance and documentation tests in both flavours.
. "$(dirname -- "$0")/lib.sh"
cd "$ROOT" || exit 1
SHOW_LINES=200
CARGO_TARGET_DIR=$BUILD/unit
# An incremental build from scratch takes a seventh longer.
CARGO_INCREMENTAL=0
export CARGO_TARGET_DIR CARGO_INCREMENTAL

conduits=$("$ROOT/scripts/build/conduits.sh" --features)

rust_tests() { timeout 1800 python3 -B "$ROOT/scripts/check/unit_tests.py" "$@"; }

# Of the plans of ibv, gni and elan a quick check takes one in four.
[ "$SCOPE" = all ] || export GASNET_TEST_PLANS="$SEED:4"
# All crates except the two of the libraries: these have no tests, and examples that would be built.
set -- --workspace --exclude gasnet-conduit-any --exclude gasnet-libraries --features "$conduits"
if [ "$SCOPE" = all ]; then
    attempt "unit tests in both flavours" rust_tests "$@" --and "$@" --all-features
    attempt "fuzzer" env MINUTES=10 ROUNDS=1000000 timeout 3600 sh "$ROOT/scripts/check/fuzz.sh"
else
    # The crates with debug checks.
    attempt "unit tests in both flavours" rust_tests "$@" \
        --and -p gasnet -p gasnet-conduit -p gasnet-tools --all-features
fi
finish
