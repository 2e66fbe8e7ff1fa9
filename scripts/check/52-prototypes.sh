# The types of all exports against the headers (prototypes.py), in the debug flavour, which exports
# the most.
. "$(dirname -- "$0")/lib.sh"
scratch
CARGO_TARGET_DIR=$BUILD/prototypes
export CARGO_TARGET_DIR

# expand CRATE: the crate after macro expansion, which only nightly compilers print.
expand() {
    RUSTC_BOOTSTRAP=1 timeout 600 cargo rustc --quiet --locked --manifest-path "$ROOT/Cargo.toml" \
        -p "$1" --lib --all-features --profile=check -- -Zunpretty=expanded >"$WORK/$1.rs"
}

if [ ! -x "$BUILD/cbindgen/bin/cbindgen" ]; then
    fail "prototypes: no $BUILD/cbindgen/bin/cbindgen. Run scripts/setup.sh."
elif attempt "prototypes: expand gasnet" expand gasnet &&
    attempt "prototypes: expand gasnet-tools" expand gasnet-tools; then
    attempt "prototypes: exports and headers agree" timeout 300 python3 -B "$ROOT/scripts/check/prototypes.py" \
        "$STAGE_RELEASE/include" "$STAGE_RELEASE/include/smp-conduit" "$BUILD/cbindgen/bin/cbindgen" "$CC" \
        "$WORK/gasnet.rs" "$WORK/gasnet-tools.rs"
fi
finish
