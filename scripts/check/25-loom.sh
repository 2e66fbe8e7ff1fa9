# The lock-free structures in every interleaving (proofs/models/, with loom); in a full check also
# that each weakened ordering is detected.
. "$(dirname -- "$0")/lib.sh"
CARGO_TARGET_DIR=$BUILD/loom
export CARGO_TARGET_DIR
manifest=$ROOT/proofs/models/Cargo.toml
if attempt "loom: build" timeout 900 cargo build --quiet --locked --release --manifest-path "$manifest"; then
    attempt "loom: models" timeout 300 "$CARGO_TARGET_DIR/release/gasnet-models"
    if [ "$SCOPE" = all ]; then
        scratch
        sh "$ROOT/proofs/models/weaken.sh" "$ROOT" "$WORK" || failures=1
    else
        attempt "loom: weakened orderings fit the sources" sh "$ROOT/proofs/models/weaken.sh" "$ROOT"
        skip "loom: weakened orderings: run in make check-all"
    fi
fi
finish
