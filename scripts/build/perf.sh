#!/bin/sh
# perf.sh: compiles gasnet_perf with the universal library and puts it into $B/bin/. Its sources use
# public interfaces only.
. "$(dirname -- "$0")/../common.sh"

mkdir -p "$B/bin"
debug=
[ "$FLAVOUR" = release ] || debug=-DGASNET_DEBUG=1
# shellcheck disable=SC2086 # CC and the flags may be several words
$CC -std=c11 -O2 -Wall -Wextra -D_GNU_SOURCE=1 -D_REENTRANT $debug -I"$B/include" -ffile-prefix-map="$ROOT"=/gasnet \
    -ffile-prefix-map="$BUILD"=/build \
    "$ROOT"/programs/perf/*.c -o "$B/bin/gasnet_perf.new" "$B/lib/libgasnet.a" -lpthread -ldl -lm
strip "$B/bin/gasnet_perf.new"
replace "$B/bin/gasnet_perf" <"$B/bin/gasnet_perf.new"
rm -f "$B/bin/gasnet_perf.new"
chmod 755 "$B/bin/gasnet_perf"
