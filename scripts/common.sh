# Sourced by the build scripts: paths, and the values of the templates' @NAMES@. Set by the Makefile
# (or by hand): FLAVOUR=release|debug, SEGMENT=fast|large|everything, BUILD, CC, CXX, CROSS.

set -eu
LC_ALL=C
export LC_ALL

ROOT=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
while [ ! -f "$ROOT/Cargo.lock" ]; do
    ROOT=$(dirname -- "$ROOT")
    [ "$ROOT" != / ] || { echo "$0: the source tree's root was not found" >&2; exit 1; }
done

FLAVOUR=${FLAVOUR:-release}
SEGMENT=${SEGMENT:-fast}
BUILD=${BUILD:-$ROOT/build}
case $BUILD in /*) ;; *) BUILD=$ROOT/$BUILD ;; esac
# The compiled core and the programs serve every segment configuration; headers and libraries have
# one.
CORE=$BUILD/$FLAVOUR
case $SEGMENT in
fast) B=$CORE ;;
large | everything) B=$CORE-$SEGMENT ;;
*) echo "$0: SEGMENT is '$SEGMENT'; it must be fast, large or everything" >&2; exit 1 ;;
esac

CC=${CC:-$(command -v gcc || command -v cc || echo gcc)}
CXX=${CXX:-$(command -v g++ || command -v c++ || echo g++)}
# Those of binutils: CROSS is the prefix of another machine's.
_prefix=${CROSS:+$CROSS-}
LD=${LD:-${_prefix}ld} AR=${AR:-${_prefix}ar} NM=${NM:-${_prefix}nm} OBJCOPY=${OBJCOPY:-${_prefix}objcopy}
RANLIB=${RANLIB:-${_prefix}ranlib} STRIP=${STRIP:-${_prefix}strip}

VERSION=2025.8.0
LIBRARY_VERSION=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml")
SOVERSION=0

case $FLAVOUR in
release) DEBUG=0 OPT_CFLAGS=-O3 OPT_CXXFLAGS=-O2 DEBUG_DEFINES='' TOOLS_DEBUGFLAGS=-DNDEBUG ;;
debug) DEBUG=1 OPT_CFLAGS=-g OPT_CXXFLAGS=-g DEBUG_DEFINES=' -DGASNET_DEBUG' TOOLS_DEBUGFLAGS=-DGASNET_DEBUG ;;
*) echo "$0: FLAVOUR is '$FLAVOUR'; it must be release or debug" >&2; exit 1 ;;
esac

# Compiler flags for clients, from the arguments of `configure`.
OPT_CFLAGS=$OPT_CFLAGS${CONFIG_CFLAGS:+ $CONFIG_CFLAGS} OPT_CXXFLAGS=$OPT_CXXFLAGS${CONFIG_CXXFLAGS:+ $CONFIG_CXXFLAGS}
: "${CONFIG_LDFLAGS:=}" "${CONFIGURE_ARGS:=FLAVOUR=$FLAVOUR SEGMENT=$SEGMENT}"

# Quote a text for the right side of sed's s|||; the second also for a C string.
replacement() { printf '%s' "$1" | sed 's/[\\&|]/\\&/g'; }
c_string() { replacement "$(printf '%s' "$1" | sed 's/[\\"]/\\&/g')"; }

# Name of a library, by conduit and thread mode. The universal library is "any" and serves all
# modes.
library_name() {
    case $1 in
    tools) echo "gasnet_tools-$2" ;;
    any) echo gasnet ;;
    *) echo "gasnet-$1-$2" ;;
    esac
}

# Lower to upper case.
upper() { printf %s "$1" | tr '[:lower:]-' '[:upper:]_'; }

# Once for all templates: the conduits whose jobs can span several hosts, and the commands of sed
# that are the same in each.
SEVERAL_HOSTS=$("$ROOT/scripts/build/conduits.sh" --hosts)
SAME_IN_ALL="s|@CC@|$(replacement "$CC")|g
s|@CXX@|$(replacement "$CXX")|g
s|@LDFLAGS@|$(replacement "${CONFIG_LDFLAGS:--O2}")|g
s|@CONFIGURE_ARGS@|$(c_string "$CONFIGURE_ARGS")|g
s|@OPT_CFLAGS@|$(replacement "$OPT_CFLAGS")|g
s|@OPT_CXXFLAGS@|$(replacement "$OPT_CXXFLAGS")|g
s|@DEBUG@|$DEBUG|g
s|@DEBUG_DEFINES@|$DEBUG_DEFINES|g
s|@FLAVOUR@|$FLAVOUR|g
s|@SEGMENT@|$SEGMENT|g
s|@SEGMENT_UC@|$(upper "$SEGMENT")|g
s|@TOOLS_DEBUGFLAGS@|$TOOLS_DEBUGFLAGS|g
s|@LIBRARY_VERSION@|$LIBRARY_VERSION|g
s|@SOVERSION@|$SOVERSION|g
s|@BUILD_ID@|libgasnet-$LIBRARY_VERSION-${B##*/}|g"

# expand TEMPLATE CONDUIT MODE PREFIX: the template on standard output with every @NAME@ replaced.
expand() {
    # With the development links in lib itself (LIBDIR_SO), the loader needs no run path.
    _rpath=-Wl,-rpath,$4/lib
    [ -z "${LIBDIR_SO:-}" ] || _rpath=
    _mode_uc=$(upper "$3") _threads='' _word=safe _flags='-DGASNETT_THREAD_SAFE -D_REENTRANT'
    [ "$3" = seq ] || _threads=' -D_REENTRANT'
    [ "$3" != seq ] || { _word=single; _flags=-DGASNETT_THREAD_SINGLE; }
    _library=$(library_name "$2" "$3") _mode_define=" -DGASNET_$_mode_uc" _conduit_include=" -I$4/include/$2-conduit"
    # Makefile fragments name the prefix in one line only.
    _conduit_include_mak=" -I\$(GASNET_PREFIX)/include/$2-conduit"
    _about="$2, thread mode $3"
    # Whether jobs can span several hosts.
    case " any tools $SEVERAL_HOSTS " in *" $2 "*) _ssh=1 ;; *) _ssh=0 ;; esac
    [ "$2" != any ] || { _mode_define='' _conduit_include='' _conduit_include_mak='' \
        _about="${CONDUITS:-any conduit}: chosen at start, every thread mode"; }
    _old_ifs=$IFS
    IFS=.
    # shellcheck disable=SC2086 # split at the dots
    set -- "$1" "$2" "$3" "$4" $VERSION
    IFS=$_old_ifs
    sed -e "$SAME_IN_ALL" \
        -e "s|@PREFIX@|$(replacement "$4")|g" -e "s|@CONDUIT@|$2|g" -e "s|@CONDUIT_UC@|$(upper "$2")|g" \
        -e "s|@LIBRARY@|$_library|g" -e "s|@MODE_DEFINE@|$_mode_define|g" \
        -e "s|@CONDUIT_INCLUDE@|$(replacement "$_conduit_include")|g" \
        -e "s|@CONDUIT_INCLUDE_MAK@|$_conduit_include_mak|g" \
        -e "s|@ABOUT@|$_about|g" -e "s|@MODE@|$3|g" -e "s|@MODE_UC@|$_mode_uc|g" -e "s|@THREAD_DEFINES@|$_threads|g" \
        -e "s|@SPAWNER_SSH@|$_ssh|g" -e "s|@RPATH@|$_rpath|g" -e "s|@TOOLS_THREADFLAGS@|$_flags|g" \
        -e "s|@TOOLS_THREAD_WORD@|$_word|g" \
        -e "s|@VERSION@|$VERSION|g" -e "s|@VERSION_MAJOR@|$5|g" -e "s|@VERSION_MINOR@|$6|g" \
        -e "s|@VERSION_PATCH@|$7|g" \
        -e 's/[[:space:]]*$//' "$1"
}

# replace FILE: standard input becomes FILE, unless it already has that content (so that make sees
# no change).
replace() {
    [ -d "${1%/*}" ] || mkdir -p "$(dirname -- "$1")"
    cat >"$1.new.$$"
    if cmp -s "$1.new.$$" "$1"; then rm -f "$1.new.$$"; else mv -f "$1.new.$$" "$1"; fi
}
