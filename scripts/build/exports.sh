#!/bin/sh
# exports.sh CONDUIT|tools: the names that this library exports, sorted, one per line.
. "$(dirname -- "$0")/../common.sh"

lists=$ROOT/base/tools/exports.txt
[ "$1" = tools ] || lists="$lists $ROOT/libraries/exports/exports.txt $ROOT/libraries/exports/gasnet1.txt"
# Each flavour has a symbol that only its own clients refer to.
other=debug
[ "$FLAVOUR" = release ] || other=release
for list in $lists; do
    sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$list"
done | grep -v "_needs_${other}_library_" | sort -u
