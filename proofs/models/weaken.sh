#!/bin/sh
# weaken.sh ROOT SCRATCH: applies each line of weakenings.txt to a copy of the sources and checks
# that the named model fails. Prints one line for each: PASS or FAIL. Needs loom in Cargo's cache or
# a network.
# weaken.sh ROOT: checks only that each line changes its file.
set -eu
ROOT=$1
SCRATCH=${2:-}
if [ -z "$SCRATCH" ]; then
    status=0
    while IFS='|' read -r model file expression; do
        case $model in '' | '#'*) continue ;; esac
        sed -E "$expression" "$ROOT/$file" | cmp -s - "$ROOT/$file" || continue
        echo "$file: $expression changes nothing"
        status=1
    done <"$ROOT/proofs/models/weakenings.txt"
    exit $status
fi
status=0
while IFS='|' read -r model file expression; do
    case $model in '' | '#'*) continue ;; esac
    rm -rf "$SCRATCH/tree" && mkdir "$SCRATCH/tree"
    for folder in base conduit job proofs src; do cp -R "$ROOT/$folder" "$SCRATCH/tree/"; done
    sed -i -E "$expression" "$SCRATCH/tree/$file"
    name="weakened $file: $expression"
    if cmp -s "$ROOT/$file" "$SCRATCH/tree/$file"; then
        echo "FAIL $name changes nothing"
        status=1
        continue
    fi
    if ! cargo build --quiet --locked --release --manifest-path "$SCRATCH/tree/proofs/models/Cargo.toml" \
        --target-dir "$SCRATCH/target" 2>"$SCRATCH/log"; then
        echo "FAIL $name does not compile"
        tail -n 20 "$SCRATCH/log" | sed 's/^/    | /'
        status=1
    elif timeout 120 "$SCRATCH/target/release/gasnet-models" "$model" >"$SCRATCH/log" 2>&1; then
        echo "FAIL $name is not detected by '$model'"
        status=1
    else
        echo "PASS $name is detected by '$model'"
    fi
done <"$ROOT/proofs/models/weakenings.txt"
exit $status
