#!/bin/sh
# install.sh: copies what was built to $DESTDIR$PREFIX. Needs PREFIX; takes DESTDIR, LIBDIR_SO=1
# (the development links of the shared libraries in lib/ itself, for packagers whose lib is on the
# loader's path), CONDUITS, MODES, UNIVERSAL, PROGRAMS, FLAVOUR, SEGMENT.
#
# Everything that is created is noted in share/gasnet/manifest (F file, D directory), from which
# uninstall.sh removes it.
. "$(dirname -- "$0")/../common.sh"

: "${PREFIX:?}" "${CONDUITS?}" "${MODES:?}" "${UNIVERSAL:=1}" "${PROGRAMS:=1}"
# Fragments name the prefix in lines of make and of shells.
case $PREFIX in *[[:space:]\'\"\\\&\|\;\<\>\(\)\$\`\*\?\[\]\#]*)
    echo "spaces and special characters in PREFIX are not supported: $PREFIX" >&2
    exit 1 ;;
esac
case $PREFIX in /*) ;; *) PREFIX=$(pwd)/$PREFIX ;; esac
[ "$PREFIX" = / ] || PREFIX=${PREFIX%/}
to=${DESTDIR:-}$PREFIX
# All users can read the installed files.
umask 022
if [ "$to" -ef "$ROOT" ]; then
    echo "PREFIX is the source tree, $ROOT: choose another folder (a build tree that configure made elsewhere will do)" >&2
    exit 1
fi
# A universal library that is there and has conduits that this one lacks stays.
there=
fragment=$to/include/gasnet.mak
[ ! -f "$fragment" ] || there=$(sed -n '1s/.* (\(.*\): chosen at start.*/\1/p' "$fragment")
lost=
for conduit in $there; do case " $CONDUITS " in *" $conduit "*) ;; *) lost="$lost${lost:+ }$conduit" ;; esac; done
if [ "$UNIVERSAL" = 1 ] && [ -n "$lost" ]; then
    UNIVERSAL=0
    # shellcheck disable=SC2086 # words
    all=$(printf '%s\n' $there $CONDUITS | sort -u | tr '\n' ' ')
    echo "  kept: the universal library in $to has $there. This one has $CONDUITS, so programs would lose $lost." \
        "make install CONDUITS=\"${all% }\" installs one with all of them; make uninstall first removes the old one"
fi
manifest=share/gasnet/manifest
notes=$B/manifest.$$
: >"$notes"
trap 'rm -f "$notes"' EXIT

# directory RELATIVE: creates it with its parents, noting those that are new. Legion installs into
# its build tree, where include and lib are links to what is copied from here: they give way.
directory() {
    if [ -L "$to/$1" ] && [ "$to/$1" -ef "$B/$1" ]; then rm -f "$to/$1"; fi
    [ -d "$to/$1" ] && return
    case $1 in */*) directory "${1%/*}" ;; *) [ -d "$to" ] || { mkdir -p "$to"; echo "D ." >>"$notes"; } ;; esac
    mkdir "$to/$1"
    echo "D $1" >>"$notes"
}

# put FILE RELATIVE [MODE]: installs one file. It replaces, never overwrites in place: a running
# program keeps its library.
put() {
    directory "${2%/*}"
    rm -f "$to/$2"
    cp "$1" "$to/$2"
    chmod "${3:-644}" "$to/$2"
    echo "F $2" >>"$notes"
}

# link TARGET RELATIVE: a symbolic link.
link() {
    directory "${2%/*}"
    ln -sfn "$1" "$to/$2"
    echo "F $2" >>"$notes"
}

# generated TEMPLATE CONDUIT MODE RELATIVE: installs an expanded template.
generated() {
    expand "$ROOT/pkgconfig/$1" "$2" "$3" "$PREFIX" >"$notes.file"
    put "$notes.file" "$4"
    rm -f "$notes.file"
}

# library NAME: installs the archive, the shared library and its links.
library() {
    put "$B/lib/lib$1.a" "lib/lib$1.a"
    put "$B/lib/lib$1.so.$LIBRARY_VERSION" "lib/lib$1.so.$LIBRARY_VERSION" 755
    link "lib$1.so.$LIBRARY_VERSION" "lib/lib$1.so.$SOVERSION"
    link "../lib$1.so.$SOVERSION" "lib/gasnet-shared/lib$1.so"
    [ -z "${LIBDIR_SO:-}" ] || link "lib$1.so.$SOVERSION" "lib/lib$1.so"
}

# completion NAME: the shells' completion of a program.
completions=
completion() {
    put "$ROOT/scripts/install/completion.bash" "share/bash-completion/completions/$1"
    completions="$completions $1"
}

# program NAME AS: installs a program in Rust.
program() { [ "$PROGRAMS" != 1 ] || { put "$CORE/core/$1" "bin/$2" 755 && completion "$2"; }; }

hosts=$("$ROOT/scripts/build/conduits.sh" --hosts)
for header in "$B"/include/*.h; do put "$header" "include/$(basename -- "$header")"; done
for conduit in $CONDUITS; do
    for header in "$B/include/$conduit-conduit"/*.h; do
        [ ! -f "$header" ] || put "$header" "include/$conduit-conduit/$(basename -- "$header")"
    done
    for mode in $MODES; do
        library "gasnet-$conduit-$mode"
        generated conduit.mak.in "$conduit" "$mode" "include/$conduit-conduit/$conduit-$mode.mak"
        generated conduit.pc.in "$conduit" "$mode" "lib/pkgconfig/gasnet-$conduit-$mode.pc"
        generated conduit-shared.pc.in "$conduit" "$mode" "lib/pkgconfig/gasnet-$conduit-$mode-shared.pc"
    done
    program gasnetrun "gasnetrun_$conduit"
    # Launchers' names in the reference.
    case $conduit in
    udp) link gasnetrun_udp bin/amudprun && link gasnetrun_smp.1 share/man/man1/amudprun.1 ;;
    elan)
        for file in shim.h shim_libelan.c; do
            put "$ROOT/conduit-elan/$file" "share/doc/gasnet/elan/$file"
        done ;;
    gni)
        for name in aries gemini; do
            link gasnetrun_gni "bin/gasnetrun_$name" && completion "gasnetrun_$name"
            link gasnetrun_smp.1 "share/man/man1/gasnetrun_$name.1"
        done ;;
    esac
    case " $hosts " in *" $conduit "*) link gasnetrun_smp.1 "share/man/man1/gasnetrun_$conduit.1" ;; esac
done
if [ "$UNIVERSAL" = 1 ]; then
    library gasnet
    generated conduit.mak.in any par include/gasnet.mak
    generated conduit.pc.in any par lib/pkgconfig/gasnet.pc
    generated conduit-shared.pc.in any par lib/pkgconfig/gasnet-shared.pc
    program gasnetrun gasnetrun
    link gasnetrun_smp.1 share/man/man1/gasnetrun.1
    for client in gasnet_perf gasnet_selftest gasnet_replay; do
        put "$B/bin/$client" "bin/$client" 755 && completion $client
    done
fi
for mode in seq par; do
    library "gasnet_tools-$mode"
    generated tools.mak.in tools "$mode" "include/gasnet_tools-$mode.mak"
    generated tools.pc.in tools "$mode" "lib/pkgconfig/gasnet_tools-$mode.pc"
done
generated GASNetConfig.cmake.in "" "" lib/cmake/GASNet/GASNetConfig.cmake
generated GASNetConfigVersion.cmake.in "" "" lib/cmake/GASNet/GASNetConfigVersion.cmake
# For find_package(GasNet) and find_package(gasnet).
link GASNetConfig.cmake lib/cmake/GASNet/gasnet-config.cmake
link GASNetConfigVersion.cmake lib/cmake/GASNet/gasnet-config-version.cmake
program gasnet_info gasnet_info
program gasnet_trace gasnet_trace
if [ -n "$completions" ]; then
    printf '#compdef%s\n_gnu_generic\n' "$completions" >"$notes.file"
    put "$notes.file" share/zsh/site-functions/_gasnet
    rm -f "$notes.file"
fi
put "$ROOT/scripts/build/ident.sh" bin/gasnet_ident 755
link gasnet_ident bin/ident
generated modulefile.lua.in "" "" "share/modulefiles/gasnet/$VERSION.lua"
# In folders as in the source tree, so that the pages' links lead to what they name.
for document in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE ARCHITECTURE.md CONTRIBUTING.md docs/*.md \
    conduit-udp/DESIGN.md emulators/README.md emulators/devices/README.md examples/*/*.c examples/*/*.h \
    examples/*/*.mk examples/*/*.txt examples/*/Makefile examples/*/README.md examples/*/*.sh; do
    for file in "$ROOT"/$document; do
        case $file in *.sh) mode=755 ;; *) mode=644 ;; esac
        [ ! -f "$file" ] || put "$file" "share/doc/gasnet/${file#"$ROOT/"}" $mode
    done
done
for page in "$ROOT"/docs/man/man*/*; do
    [ ! -f "$page" ] || { section=${page%/*}; put "$page" "share/man/${section##*/}/${page##*/}"; }
done
"$ROOT/scripts/docs/man-env.sh" "$ROOT/docs/env.md" >"$notes.file"
put "$notes.file" share/man/man7/gasnet_env.7
rm -f "$notes.file"
# A page for every function: one line that includes the page of its family.
"$ROOT/scripts/docs/man-names.sh" links | to=$to/share/man/man3 notes=$notes awk '{
    page = ENVIRON["to"] "/" $2 ".3"
    print ".so man3/" $1 ".3" >page
    close(page)
    print "F share/man/man3/" $2 ".3" >>ENVIRON["notes"]
}'

directory "${manifest%/*}"
echo "F $manifest" >>"$notes"
[ ! -f "$to/$manifest" ] || cat "$to/$manifest" >>"$notes"
sort -u "$notes" >"$to/$manifest"
chmod 644 "$to/$manifest"
