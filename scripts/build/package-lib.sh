#!/bin/sh
# package-lib.sh CONDUIT|any|tools MODE: turns $CORE/core/CONDUIT.a and the thread mode's marker
# object into $B/lib/libgasnet-CONDUIT-MODE.a and libgasnet-CONDUIT-MODE.so.N.x.y (or libgasnet.*,
# libgasnet_tools-MODE.*).
#
# A Rust static library cannot be shipped as it is: it has dozens of foreign global symbols and
# collides with any other one. So everything is linked into one relocatable object, unused sections
# are dropped, and only the exported names stay global.
# CFLAGS and LDFLAGS of the environment are used, too. KEEP_SYMBOLS=1 leaves debugging information
# to packagers, who strip themselves.
. "$(dirname -- "$0")/../common.sh"

conduit=$1 mode=$2
name=$(library_name "$conduit" "$mode")
core=$CORE/core/$conduit.a
tmp=$B/obj/$name
rm -rf "$tmp"
mkdir -p "$tmp" "$B/lib"

# The marker carries the thread mode and, in its headers, the segment configuration: the entry
# points that differ by them, the symbols of the link-time check, identity strings. The tools have
# none.
: >"$tmp/marker.names"
objects=
if [ "$conduit" != tools ]; then
    debug_flag=
    [ "$FLAVOUR" = release ] || debug_flag=-DGASNET_DEBUG
    # shellcheck disable=SC2086 # the flag may be absent
    $CC -std=c11 -O2 -fPIC -Wall -Wextra -D_GNU_SOURCE=1 -DGASNET_"$(upper "$mode")" $debug_flag \
        -DGASNETI_BUILDING_LIBRARY=1 \
        -ffile-prefix-map="$ROOT"=/gasnet -ffile-prefix-map="$BUILD"=/build \
        ${CFLAGS:-} -fno-lto -I"$B/include" -I"$B/include/$conduit-conduit" -c "$ROOT/libraries/marker/marker.c" \
        -o "$tmp/marker.o"
    "$NM" -g --defined-only "$tmp/marker.o" | awk '{ print $3 }' >"$tmp/marker.names"
    objects=$tmp/marker.o
fi

# Exports: the lists of the source tree and the marker's names, as far as they are defined.
"$NM" -g --defined-only "$core" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$tmp/core.names"
sort -u "$tmp/core.names" "$tmp/marker.names" >"$tmp/defined"
"$ROOT/scripts/build/exports.sh" "$conduit" | cat - "$tmp/marker.names" | sort -u >"$tmp/wanted"
if [ ! -s "$tmp/wanted" ]; then
    echo "$name: no list of exported names" >&2
    exit 1
fi
comm -12 "$tmp/wanted" "$tmp/defined" >"$tmp/exports"
missing=$(comm -23 "$tmp/wanted" "$tmp/defined" | wc -l)
[ "$missing" -eq 0 ] || echo "$name: $missing listed names are not defined (scripts/check/40-symbols.sh names them)" >&2
[ -s "$tmp/exports" ] || { echo "$name: nothing to export" >&2; exit 1; }

entry=$(head -n 1 "$tmp/exports")
# shellcheck disable=SC2046,SC2086 # one -u per name
"$LD" -r --gc-sections --force-group-allocation $(sed 's/^/-u /' "$tmp/exports") -e "$entry" $objects "$core" \
    -o "$tmp/all.o"
# Without -R .llvmbc binutils 2.40 aborts on leftover bitcode; .comment only names the compilers of
# the build machine. PACKAGE_OBJCOPY: options of the sanitizer builds
# (scripts/check/70-sanitize.sh).
# shellcheck disable=SC2086
"$OBJCOPY" ${PACKAGE_OBJCOPY:-} -R .llvmbc -R .llvmcmd -R .comment --keep-global-symbols="$tmp/exports" "$tmp/all.o" \
    "$tmp/$name.o"
[ -n "${KEEP_SYMBOLS:-}" ] || "$STRIP" -g "$tmp/$name.o"
rm -f "$B/lib/lib$name.a"
(cd "$tmp" && "$AR" crsD "$B/lib/lib$name.a" "$name.o")

so=lib$name.so.$LIBRARY_VERSION
soname=lib$name.so.$SOVERSION
node=$(upper "$name" | tr . _)_$SOVERSION
{
    echo "$node {"
    echo "  global:"
    sed 's/.*/    &;/' "$tmp/exports"
    echo "  local: *;"
    echo "};"
} >"$tmp/exports.map"
# The library has threads and signal handlers: it must never be unmapped (nodelete).
# shellcheck disable=SC2086 # CC may have options
$CC -shared "$tmp/$name.o" -Wl,--version-script="$tmp/exports.map" -Wl,-soname,"$soname" -Wl,-z,nodelete -Wl,-z,defs \
    -Wl,--build-id=sha1 ${LDFLAGS:-} -o "$tmp/$so" -lpthread -ldl -lm
[ -n "${KEEP_SYMBOLS:-}" ] || "$STRIP" --strip-unneeded "$tmp/$so"
mv -f "$tmp/$so" "$B/lib/$so"
ln -sf "$so" "$B/lib/$soname"
rm -f "$tmp/all.o"
