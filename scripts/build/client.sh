#!/bin/sh
# client.sh NAME: compiles the client in C of programs/NAME with the universal library, and puts it
# into $B/bin/gasnet_NAME. Its sources use public interfaces only.
. "$(dirname -- "$0")/../common.sh"

program=$B/bin/gasnet_$1
mkdir -p "$B/bin"
debug=
[ "$FLAVOUR" = release ] || debug=-DGASNET_DEBUG=1
# shellcheck disable=SC2086 # CC and the flags may be several words
$CC -std=c11 -O2 -Wall -Wextra -D_GNU_SOURCE=1 -D_REENTRANT $debug -I"$B/include" -Wa,-I"$ROOT/programs" \
    -ffile-prefix-map="$ROOT"=/gasnet -ffile-prefix-map="$BUILD"=/build \
    "$ROOT/programs/$1"/*.c -o "$program.new" "$B/lib/libgasnet.a" -lpthread -ldl -lm
"$STRIP" "$program.new"
replace "$program" <"$program.new"
rm -f "$program.new"
chmod 755 "$program"
