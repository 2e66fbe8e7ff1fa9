#!/bin/sh
# tree.sh: writes the files of the build tree $BUILD_TREE from its config.mk, which `configure`
# wrote: headers, fragments, makefiles, config.status, and links to what `make` will build.
tree=${BUILD_TREE:?the folder where configure ran}

# The value of a variable of config.mk.
chosen() { sed -n "s/^$1 := \{0,1\}//p" "$tree/config.mk" | sed 's/\$\$/$/g; s/\\#/#/g'; }
BUILD=$(chosen BUILD) CC=$(chosen CC) CXX=$(chosen CXX) CROSS=$(chosen CROSS) SEGMENT=$(chosen SEGMENT)
CONFIG_CFLAGS=$(chosen CONFIG_CFLAGS) CONFIG_CXXFLAGS=$(chosen CONFIG_CXXFLAGS) CONFIG_LDFLAGS=$(chosen CONFIG_LDFLAGS)
CONFIGURE_ARGS=$(chosen CONFIGURE_ARGS)
# Tools that are not named have the prefix.
AR=$(chosen 'export AR') RANLIB=$(chosen 'export RANLIB')
if [ "$(chosen DEBUG)" = 1 ]; then FLAVOUR=debug; else FLAVOUR=release; fi
export BUILD CC CXX CROSS SEGMENT FLAVOUR CONFIG_CFLAGS CONFIG_CXXFLAGS CONFIG_LDFLAGS CONFIGURE_ARGS
. "$(dirname -- "$0")/../common.sh"
conduits=$(chosen CONDUITS) modes=$(chosen MODES)

# linked TARGET NAME: a symbolic link, whose target may be built later. Leaves files of others
# alone.
linked() {
    if [ -e "$2" ] && [ ! -L "$2" ]; then return; fi
    ln -sfn "$1" "$2"
}

# shellcheck disable=SC2086 # one argument per conduit
"$ROOT/scripts/build/headers.sh" $conduits
replace "$tree/gasnet_config.h" <"$B/include/gasnet_config.h"

if [ "$tree" != "$ROOT" ]; then
    replace "$tree/Makefile" <<MAKEFILE
# Written by configure. make, make seq|parsync|par, make install [prefix=DIR] [DESTDIR=DIR], make
# check, make clean, make distclean, make dist; tests: scripts/build/tests.mk
include $tree/config.mk
include $ROOT/scripts/build/tree.mk
MAKEFILE
    linked "$B/include" "$tree/include"
fi
linked "$B/lib" "$tree/lib"
mkdir -p "$tree/bin"
linked "$ROOT/scripts/build/ident.sh" "$tree/bin/ident"
for conduit in $conduits; do
    folder=$tree/$conduit-conduit
    mkdir -p "$folder"
    replace "$folder/Makefile" <<MAKEFILE
# Written by configure. make, make seq|parsync|par, make testgasnet-MODE, make run-tests, make clean
include $tree/config.mk
override CONDUITS := $conduit
override UNIVERSAL := 0
include $ROOT/scripts/build/tree.mk
MAKEFILE
    for mode in $modes; do
        expand "$ROOT/pkgconfig/conduit.mak.in" "$conduit" "$mode" "$B" | replace "$folder/$conduit-$mode.mak"
        linked "$B/lib/libgasnet-$conduit-$mode.a" "$folder/libgasnet-$conduit-$mode.a"
    done
    linked "$CORE/core/gasnetrun" "$tree/bin/gasnetrun_$conduit"
    [ "$conduit" != gni ] || for name in aries gemini; do
        linked "$CORE/core/gasnetrun" "$tree/bin/gasnetrun_$name"
    done
done
CONDUITS=$conduits
linked "$CORE/core/gasnetrun" "$tree/bin/gasnetrun"
case " $conduits " in
*" udp "*)
    linked "$CORE/core/gasnetrun" "$tree/bin/amudprun"
    mkdir -p "$tree/other/amudp"
    replace "$tree/other/amudp/Makefile" <<MAKEFILE
# Written by configure. make amudprun, make amudprun-host, make clean
tree := $tree
include $ROOT/scripts/build/amudp.mk
MAKEFILE
    ;;
esac
expand "$ROOT/pkgconfig/conduit.mak.in" any par "$B" | replace "$tree/gasnet.mak"
for mode in seq par; do
    expand "$ROOT/pkgconfig/tools.mak.in" tools "$mode" "$B" | replace "$tree/gasnet_tools-$mode.mak"
done

# ---- config.status ----

# Quoted for the right side of sed's s|||.
substitution() { printf '%s\n' "$2" | sed -e 's/[\\&|]/\\&/g' -e "s/^/s|@$1@|/" -e 's/$/|g/'; }
{
    substitution PERL "$(command -v perl || echo perl)"
    substitution SHELL /bin/sh
    substitution AWK "$(command -v awk || echo awk)"
    substitution AR "$(command -v "$AR" || echo "$AR")"
    substitution RANLIB "$(command -v "$RANLIB" || echo "$RANLIB")"
    substitution GREP "$(command -v grep || echo grep)"
    substitution CONDUITS "$conduits"
    substitution EXESUFFIX ""
    substitution CC "$CC"
    substitution CXX "$CXX"
    substitution CFLAGS "$OPT_CFLAGS"
    substitution CXXFLAGS "$OPT_CXXFLAGS"
    substitution LDFLAGS "$CONFIG_LDFLAGS"
    substitution CC_FAMILY "$(chosen CC_FAMILY)"
    substitution CXX_FAMILY "$(chosen CXX_FAMILY)"
    substitution CC_SUBFAMILY none
    substitution CXX_SUBFAMILY none
    substitution GASNET_THREAD_DEFINES -D_REENTRANT
    substitution GASNET_THREAD_LIBS -lpthread
    substitution PACKAGE_VERSION "$VERSION"
    substitution prefix "$(chosen PREFIX)"
    substitution srcdir "$ROOT"
    substitution top_srcdir "$ROOT"
    substitution builddir "$tree"
    substitution top_builddir "$tree"
} | replace "$tree/config.substitutions"
printf '%s\n' "$CONFIGURE_ARGS" | replace "$tree/config.arguments"
replace "$tree/config.status" <<STATUS
#!/bin/sh
# Written by configure. Without arguments: writes the files of this build tree again. --recheck:
# runs configure again. --file=OUT[:IN[:IN]], or CONFIG_FILES="OUT[:IN[:IN]] ..." in the
# environment: writes OUT from its templates (OUT.in by default; - is the standard output or input),
# @NAMES@ replaced.
set -eu
tree='$tree'
source='$ROOT'
files=\${CONFIG_FILES-}
quiet=
create=1
while [ \$# -gt 0 ]; do
    argument=\$1
    shift
    case \$argument in
    --file | --header)
        [ \$# -gt 0 ] || { echo "config.status: \$argument needs a value" >&2; exit 1; }
        files="\$files \$1"
        shift ;;
    --file=* | --header=*) files="\$files \${argument#*=}" ;;
    --recheck) eval "set -- \$(cat "\$tree/config.arguments")"; cd "\$tree"; exec "\$source/configure" "\$@" ;;
    --config) cat "\$tree/config.arguments"; exit 0 ;;
    --version | -V) echo "config.status of libgasnet $LIBRARY_VERSION"; exit 0 ;;
    --help | -h) sed -n 's/^# //p' "\$tree/config.status"; exit 0 ;;
    --quiet | --silent | -q) quiet=1 ;;
    --no-create | -n) create= ;;
    -?*) echo "config.status: unrecognized option: \$argument" >&2; exit 1 ;;
    *) files="\$files \$argument" ;;
    esac
done
[ -n "\$create" ] || exit 0
if [ -z "\$files" ]; then
    BUILD_TREE=\$tree exec "\$source/scripts/build/tree.sh"
fi
for entry in \$files; do
    out=\${entry%%:*}
    templates=\${entry#"\$out"}
    [ -n "\$templates" ] || templates=:\$out.in
    old_ifs=\$IFS
    IFS=:
    # shellcheck disable=SC2086 # split at the colons
    set -- \${templates#:}
    IFS=\$old_ifs
    # As in other projects, a template that is not here is that of the source tree.
    for template; do
        shift
        if [ "\$template" != - ] && [ ! -f "\$template" ]; then
            case \$template in /*) ;; *) [ ! -f "\$source/\$template" ] || template=\$source/\$template ;; esac
            [ -f "\$template" ] || { echo "config.status: there is no template \$template for \$out" >&2; exit 1; }
        fi
        set -- "\$@" "\$template"
    done
    if [ "\$out" = - ]; then
        cat -- "\$@" | sed -f "\$tree/config.substitutions"
    else
        cat -- "\$@" | sed -f "\$tree/config.substitutions" >"\$out.new"
        mv -f "\$out.new" "\$out"
        [ -n "\$quiet" ] || echo "config.status: creating \$out"
    fi
done
STATUS
chmod 755 "$tree/config.status"
