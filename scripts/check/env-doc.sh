#!/bin/sh
# env-doc.sh: fails when docs/env.md is not what `gasnet_info --env-markdown` prints, or a table of
# variables in another page is not that of docs/env.md. --write brings the pages up to date instead.
. "$(dirname -- "$0")/../common.sh"

cd "$ROOT"
page=docs/env.md
target=${CARGO_TARGET_DIR:-$BUILD/lint}
mkdir -p "$BUILD"
fresh=$BUILD/env.md.$$
trap 'rm -f "$fresh"' EXIT
cargo run --quiet --locked --target-dir "$target" -p gasnet-launcher --bin gasnet_info \
    --features "$(scripts/build/conduits.sh --features)" -- --env-markdown >"$fresh"

if [ "${1:-}" = --write ]; then
    replace "$page" <"$fresh"
    python3 -B scripts/docs/variable_tables.py
elif ! diff -u "$page" "$fresh"; then
    echo "check-env-doc: $page is stale: run scripts/check/env-doc.sh --write" >&2
    exit 1
else
    python3 -B scripts/docs/variable_tables.py --check
fi
echo "env: $page agrees with the table"
