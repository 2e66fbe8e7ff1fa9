# The lock-free structures in every interleaving (proofs/models/, with loom); in a full check also
# that each weakened ordering is detected.
. "$(dirname -- "$0")/lib.sh"
CARGO_TARGET_DIR=$BUILD/loom
export CARGO_TARGET_DIR
# Each place where memory is handed over has a row on the page.
points_are_listed() {
    _missing=''
    # shellcheck disable=SC2013 # words
    for _point in $(grep -rhoE 'SYNC POINT [a-z0-9-]+' "$ROOT"/src "$ROOT"/job "$ROOT"/base "$ROOT"/conduit* \
        --include='*.rs' | awk '{ print $3 }' | sort -u); do
        sed -n '/^## Weak memory/,/^## F/p' "$ROOT/docs/testing.md" | grep -qE "^[|]( |.*, )${_point}[ ,]" ||
            _missing="$_missing $_point"
    done
    [ -z "$_missing" ] || { echo "docs/testing.md, \"Weak memory\", has no row for$_missing"; return 1; }
}

attempt "loom: SYNC POINTs are listed" points_are_listed
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
