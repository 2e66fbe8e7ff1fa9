#!/bin/sh
# check-headers.sh [INCLUDE_DIR]: the lists in this directory and the prototypes in the headers must
# name the same symbols, and each must be an ordinary C symbol behind whatever macro has its name.
# INCLUDE_DIR: as scripts/build/headers.sh writes it (default: written to a temporary directory).
# The tools' symbols have a list and headers of their own.
set -eu
LC_ALL=C
export LC_ALL
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

include=${1:-}
if [ -z "$include" ]; then
    BUILD=$tmp/build FLAVOUR=release "$here/../../scripts/build/headers.sh" smp
    include=$tmp/build/release/include
fi
compile() { "${CC:-gcc}" -std=c11 -D_GNU_SOURCE=1 -DGASNET_PAR -I"$include" -I"$include/smp-conduit" "$@"; }
status=0
fail() {
    echo "check-headers: $1:" >&2
    sed 's/^/    /' "$2" >&2
    status=1
}

for list in "$here"/*.txt; do
    grep -v '^#' "$list" >"$tmp/list" || :
    sort -u "$tmp/list" | cmp -s - "$tmp/list" ||
        { echo "check-headers: $list is not sorted, or names a symbol twice" >&2; status=1; }
done
cat "$here"/*.txt | grep -v '^#' | sort >"$tmp/listed"
uniq -d "$tmp/listed" >"$tmp/twice"
[ ! -s "$tmp/twice" ] || fail "listed in two files" "$tmp/twice"

for header in gasnet.h gasnet_coll.h gasnet_vis.h gasnet_ratomic.h gasnet_mk.h; do
    echo "#include <$header>"
done >"$tmp/all.c"

# Functions that the headers declare (gcc lists them), but for the inline ones, the tools and the
# link-time check.
compile -aux-info "$tmp/aux" -c "$tmp/all.c" -o "$tmp/all.o"
grep -v -e '^/\* .*/gasnet_tools\.h:' -e '^/\* .*/gasnett_[a-z]*\.h:' "$tmp/aux" |
    sed -n -e "\|^/\* $include/|!d" -e '/\*\/ static /d' \
    -e 's/^.*\*\/ extern [^(]*[ *]\([a-z_]*[A-Za-z0-9_]*\) (.*/\1/p' |
    grep -v '^gasneti_link_check__' | sort -u >"$tmp/declared"
comm -13 "$tmp/listed" "$tmp/declared" >"$tmp/unlisted"
[ ! -s "$tmp/unlisted" ] || fail "declared in a header but in no list" "$tmp/unlisted"

# Behind the macros there is an ordinary symbol of exactly that name.
{
    cat "$tmp/all.c"
    sed 's/.*/#undef &/' "$tmp/listed"
    awk '{ printf "const void *p%d;\n", NR }' "$tmp/listed"
    echo 'void take(void);'
    echo 'void take(void) {'
    awk '{ printf "    p%d = (const void *)&%s;\n", NR, $1 }' "$tmp/listed"
    echo '}'
} >"$tmp/take.c"
if compile -c "$tmp/take.c" -o "$tmp/take.o" 2>"$tmp/errors"; then
    nm -u "$tmp/take.o" | awk '{ print $2 }' | sort -u >"$tmp/needed"
    comm -23 "$tmp/listed" "$tmp/needed" >"$tmp/local"
    [ ! -s "$tmp/local" ] || fail "listed, but the headers give it no external symbol" "$tmp/local"
else
    fail "listed, but not declared" "$tmp/errors"
fi

[ "$status" -ne 0 ] || echo "check-headers: $(wc -l <"$tmp/listed") symbols, all declared and listed"
exit "$status"
