#!/bin/sh
# run.sh [INCLUDE_DIR]: tests of the installed headers, without libgasnet. INCLUDE_DIR is an include
# tree as installed (default: written by scripts/build/headers.sh to a temporary directory). One
# line per test; exit status 1 when one fails, 0 else.
#
#   compile    every language standard, gcc and clang, each thread mode, release and debug: no
#              warning
#   order      each header alone, twice, and before every other one; in C, in C++ and inside extern
#              "C"
#   refuse     code that must not compile, with a message that names the reason
#   fences     puts.c for AArch64: a barrier between the stores of two puts
#   run        fastpath.c, and ../clients/values.c with the values that clients compile in
#   link       a program with the library of another mode, conduit or flavour: the undefined symbol
#              names it
#   start      the same, detected at initialisation: one message and GASNET_ERR_BAD_ARG
#   capture    configure scripts store the expansion of some macros: it must compile without any
#              header
#   ident      identity strings in every object
# CC, CXX and lists of flags are several words each.
# shellcheck disable=SC2086
set -u
LC_ALL=C
export LC_ALL
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
clients=$here/../clients
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

include=${1:-}
if [ -z "$include" ]; then
    BUILD=$tmp/build FLAVOUR=release "$root/scripts/build/headers.sh" smp sock || exit 1
    include=$tmp/build/release/include
fi
strict='-Wall -Wextra -pedantic -Werror'
paths="-I$include -I$include/smp-conduit"
failed=0 passed=0

# report NAME WHY: passes if WHY is empty.
report() {
    if [ -z "$2" ]; then
        passed=$((passed + 1))
        echo "PASS headers/$1"
    else
        failed=$((failed + 1))
        echo "FAIL headers/$1: $2"
        sed 's/^/     /' "$tmp/out" | head -n 20
    fi
}
# check NAME COMMAND...: passes when the command succeeds and prints nothing.
check() {
    name=$1 why=
    shift
    "$@" >"$tmp/out" 2>&1 && [ ! -s "$tmp/out" ] || why=$*
    report "$name" "$why"
}
# check_says NAME TEXT COMMAND...: passes when the output has a line with TEXT, whatever the exit
# status.
check_says() {
    name=$1 text=$2 why=
    shift 2
    "$@" >"$tmp/out" 2>&1
    grep -qF -- "$text" "$tmp/out" || why="'$text' is not in the output of: $*"
    report "$name" "$why"
}
# compiles NAME COMPILER SOURCE FLAGS...: passes when an object is made without a warning.
compiles() {
    name=$1 compiler=$2 source=$3
    shift 3
    check "compile-$name" $compiler $strict "$@" -c "$source" -o "$tmp/object.o"
}

compilers=
for pair in gcc:g++ clang:clang++; do
    if command -v "${pair%:*}" >/dev/null && command -v "${pair#*:}" >/dev/null; then
        compilers="$compilers $pair"
    else
        echo "SKIP headers/${pair%:*}: not installed"
    fi
done
[ -n "$compilers" ] || { echo "FAIL headers: no compiler"; exit 1; }

# -- compile. The sources are in C and C++; -O2 lets the compilers see through the inline functions.
# language STANDARD: the compiler for it.
language() { case $1 in c++*) echo "$cxx -x c++" ;; *) echo "$cc" ;; esac; }
for pair in $compilers; do
    cc=${pair%:*} cxx=${pair#*:}
    for mode in SEQ PARSYNC PAR; do
        for std in c99 c11 c17 c2x c++11 c++14 c++17 c++20; do
            for source in "$clients/values" "$here/use"; do
                compiles "$cc-$std-$mode-${source##*/}" "$(language $std)" "$source.c" -std=$std -O2 \
                    -DGASNET_$mode $paths
            done
        done
        compiles "$cc-debug-$mode" $cc "$here/use.c" -std=c11 -O0 -DGASNET_DEBUG -DGASNET_$mode $paths
        compiles "$cc-posix-$mode" $cc "$here/use.c" -std=gnu11 -O3 -D_GNU_SOURCE=1 -D_REENTRANT -DGASNET_$mode $paths
    done
    for std in c99 c2x c++11 c++20; do
        compiles "$cc-$std-names" "$(language $std)" "$clients/names.c" -std=$std -O1 -DGASNET_PAR $paths \
            -I"$here/../common" -Wno-unused-parameter
    done
    compiles "$cc-conversions" $cc "$here/use.c" -std=c11 -O2 -Wshadow -Wcast-qual -Wstrict-prototypes \
        -DGASNET_PAR $paths
    # Only the thread mode, defined in the source and without a value: Realm and others do no more.
    printf '#define GASNET_PAR\n#include "%s/use.c"\n' "$here" >"$tmp/mode.c"
    compiles "$cc-empty-mode" $cc "$tmp/mode.c" -std=c11 $paths
    compiles "$cc-conduit-by-macro" $cc "$clients/values.c" -std=c11 -DGASNET_PAR -DGASNET_CONDUIT_SMP -I"$include"
    compiles "$cc-conduit-both" $cc "$clients/values.c" -std=c11 -DGASNET_PAR -DGASNET_CONDUIT_SMP $paths
    compiles "$cc-isystem" "$cxx -x c++" "$here/use.c" -std=c++17 -DGASNET_PAR -isystem "$include/smp-conduit" \
        -isystem "$include"
    compiles "$cc-universal" $cc "$here/use.c" -std=c11 -DGASNET_SEQ -I"$include"
done

# -- order. One source per header: it alone and twice; then before each of the others.
public='gasnetex.h gasnet.h gasnet_fwd.h gasnet_ratomic.h gasnet_vis.h gasnet_coll.h gasnet_mk.h gasnet_tools.h gasnet_portable_platform.h gasnet_config.h'
for first in $public; do
    {
        echo "#include <$first>"
        echo "#include <$first>"
        echo "extern int order_test;"
    } >"$tmp/alone.c"
    for pair in $compilers; do
        check "order-${pair%:*}-$first" "${pair%:*}" -std=c99 $strict -DGASNET_PAR $paths -fsyntax-only "$tmp/alone.c"
        check "order-${pair#*:}-$first" "${pair#*:}" -x c++ -std=c++11 $strict -DGASNET_PAR $paths \
            -fsyntax-only "$tmp/alone.c"
    done
    for second in $public; do
        printf '#include <%s>\n#include <%s>\n#include <gasnet.h>\nextern int order_test;\n' "$first" \
            "$second" >"$tmp/pair.c"
        check "order-c-$first-$second" gcc -std=c99 $strict -DGASNET_SEQ $paths -fsyntax-only "$tmp/pair.c"
        printf 'extern "C" {\n#include <%s>\n#include <%s>\n}\nextern int order_test;\n' "$first" \
            "$second" >"$tmp/pair.cc"
        check "order-extern-c-$first-$second" g++ -std=c++17 $strict -DGASNET_PAR $paths -fsyntax-only "$tmp/pair.cc"
    done
done
# These need neither a thread mode nor a library, in user code.
cat >"$tmp/alone.c" <<'EOF'
#include <gasnet_fwd.h>
gex_Event_t event; gex_Flags_t flags = GEX_FLAG_IMMEDIATE;
gex_TM_t tm; gex_Rank_t rank = GEX_RANK_INVALID; gex_EP_Index_t index_;
gex_Addr_t addr; gex_DT_t dt = GEX_DT_U64; gex_OP_t op = GEX_OP_FADD;
 gex_EP_Capabilities_t capabilities = GEX_EP_CAPABILITY_ALL;
#if GEX_OP_TO_FETCHING_ || defined(GASNET_OK) || defined(GASNET_PAR) || GEX_FLAG_IMMEDIATE != 1
#error "gasnet_fwd.h brings more, or less, than it should"
#endif
EOF
for pair in $compilers; do
    check "fwd-alone-${pair%:*}" "${pair%:*}" -std=c99 $strict -I"$include" -fsyntax-only "$tmp/alone.c"
    check "fwd-alone-${pair#*:}" "${pair#*:}" -x c++ -std=c++11 $strict -I"$include" -fsyntax-only "$tmp/alone.c"
done
# No library either; the client's thread mode stands on the command line (UPC++).
for pair in $compilers; do
    for header in gasnet_portable_platform.h gasnet_config.h gasnet_tools.h; do
        printf '#include <%s>\nextern int bare;\n' "$header" >"$tmp/alone.c"
        check "bare-${pair%:*}-$header" "${pair%:*}" -std=c99 $strict -I"$include" -c "$tmp/alone.c" -o "$tmp/alone.o"
        check "bare-${pair#*:}-$header" "${pair#*:}" -x c++ -std=c++11 $strict -I"$include" -c "$tmp/alone.c" \
            -o "$tmp/alone.o"
    done
    for mode in -DGASNET_SEQ -DGASNET_PAR '-DGASNET_PAR -DGASNETT_USE_TRUE_MUTEXES=1'; do
        label=$(echo "$mode" | tr -cd 'A-Z_')
        check "lite-${pair%:*}-$label-links" "${pair%:*}" -std=c11 -Wall -Wextra -Werror $mode $paths \
            "$here/../tools/tools_lite.c" -o "$tmp/lite"
        check_says "lite-${pair%:*}-$label" 'tools_lite: PASS' "$tmp/lite"
        check "lite-${pair#*:}-$label-links" "${pair#*:}" -x c++ -std=c++11 -Wall -Wextra -Werror $mode $paths \
            "$here/../tools/tools_lite.c" -o "$tmp/lite"
        check_says "lite-${pair#*:}-$label" 'tools_lite: PASS' "$tmp/lite"
    done
done
# All macros of gasnet_fwd.h begin with GEX_.
echo '#include <stdint.h>' | gcc -x c -E -dM - | awk '{ sub(/\(.*/, "", $2); print $2 }' | sort -u >"$tmp/system.names"
gcc -E -dM -I"$include" "$include/gasnet_fwd.h" | awk '{ sub(/\(.*/, "", $2); print $2 }' | sort -u |
    comm -23 - "$tmp/system.names" |
    grep -v '^_*GEX_' >"$tmp/foreign.names"
check fwd-names cat "$tmp/foreign.names"

# -- refuse
echo '#include <gasnetex.h>' >"$tmp/bare.c"
one='define exactly one of GASNET_SEQ, GASNET_PARSYNC and GASNET_PAR'
check_says refuse-no-mode "$one" gcc $paths -fsyntax-only "$tmp/bare.c"
check_says refuse-two-modes "$one" gcc -DGASNET_SEQ -DGASNET_PAR $paths -fsyntax-only "$tmp/bare.c"
check_says refuse-two-conduits 'is another conduit than' gcc -DGASNET_SEQ -DGASNET_CONDUIT_UDP $paths \
    -fsyntax-only "$tmp/bare.c"
check_says refuse-two-flavours 'keep one' gcc -DGASNET_SEQ -DGASNET_DEBUG -DGASNET_NDEBUG $paths \
    -fsyntax-only "$tmp/bare.c"
check_says refuse-two-segments 'at most one of GASNET_SEGMENT_FAST' gcc -DGASNET_SEQ -DGASNET_SEGMENT_FAST \
    -DGASNET_SEGMENT_LARGE $paths \
    -fsyntax-only "$tmp/bare.c"
printf '#include <gasnetex.h>\nint f(gex_TM_t tm);\nint f(gex_TM_t tm) { return gex_AM_RequestShort(tm, 0, 128, 0, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17); }\n' >"$tmp/many.c"
check_says refuse-many-arguments 'gex_AM_RequestShort_many' gcc -std=c11 -Werror -DGASNET_SEQ $paths \
    -fsyntax-only "$tmp/many.c"
printf '#include <gasnetex.h>\nint f(gex_TM_t tm);\nint f(gex_TM_t tm) { return gex_AM_RequestShort(tm, 0, 128); }\n' >"$tmp/few.c"
check_says refuse-few-arguments 'gex_AM_RequestShort_few' gcc -std=c11 -Werror -DGASNET_SEQ $paths \
    -fsyntax-only "$tmp/few.c"

# -- link and start: marker.c with a stub of the core behind it is a library as far as the checks
# go. library NAME CONDUIT FLAGS...
library() {
    library_name=$1 library_conduit=$2
    shift 2
    gcc -std=c11 -O1 -DGASNETI_BUILDING_LIBRARY=1 "$@" -I"$include" -I"$include/$library_conduit-conduit" \
        -c "$root/libraries/marker/marker.c" -o "$tmp/marker.o" &&
        gcc -std=c11 -O1 -DGASNETI_BUILDING_LIBRARY=1 "$@" -I"$include" -I"$include/$library_conduit-conduit" \
        -c "$here/stub_core.c" -o "$tmp/core.o" &&
        ld -r "$tmp/marker.o" "$tmp/core.o" -o "$tmp/lib-$library_name.o"
}
library seq smp -DGASNET_SEQ
library parsync smp -DGASNET_PARSYNC
library par smp -DGASNET_PAR
library debug smp -DGASNET_PAR -DGASNET_DEBUG
library large smp -DGASNET_PAR -DGASNET_SEGMENT_LARGE
library everything smp -DGASNET_SEQ -DGASNET_SEGMENT_EVERYTHING
library sock sock -DGASNET_PAR
library any nothing -DGASNET_PAR
client() { gcc -std=c11 -O1 -Wall -Werror $paths "$@"; }
check link-par client -DGASNET_PAR "$here/start.c" "$tmp/lib-par.o" -o "$tmp/start-par"
check link-seq client -DGASNET_SEQ "$here/start.c" "$tmp/lib-seq.o" -o "$tmp/start-seq"
check link-debug client -DGASNET_PAR -DGASNET_DEBUG "$here/start.c" "$tmp/lib-debug.o" -o "$tmp/start-debug"
check link-universal gcc -std=c11 -Wall -Werror -I"$include" -DGASNET_SEQ "$here/start.c" "$tmp/lib-any.o" \
    -o "$tmp/start-any"
check link-values client -DGASNET_PAR "$clients/values.c" "$tmp/lib-par.o" -o "$tmp/values"
check run-values "$tmp/values"
check_says link-wrong-mode 'gasneti_link_check__conduit_smp__mode_par__release__abi_0' \
    client -DGASNET_PAR "$here/start.c" "$tmp/lib-seq.o" -o "$tmp/wrong"
check_says link-wrong-flavour 'gasneti_link_check__conduit_smp__mode_par__debug__abi_0' \
    client -DGASNET_PAR -DGASNET_DEBUG "$here/start.c" "$tmp/lib-par.o" -o "$tmp/wrong"
check_says link-wrong-conduit 'gasneti_link_check__conduit_smp__mode_par__release__abi_0' \
    client -DGASNET_PAR "$here/start.c" "$tmp/lib-sock.o" -o "$tmp/wrong"
check_says link-wrong-segments 'gasneti_link_check__conduit_smp__mode_par__release__everything__abi_0' \
    client -DGASNET_PAR -DGASNET_SEGMENT_EVERYTHING "$here/start.c" "$tmp/lib-large.o" -o "$tmp/wrong"
check_says link-fast-with-large 'gasneti_link_check__conduit_smp__mode_par__release__abi_0' \
    client -DGASNET_PAR "$here/start.c" "$tmp/lib-large.o" -o "$tmp/wrong"
check link-large client -DGASNET_PAR -DGASNET_SEGMENT_LARGE "$here/start.c" "$tmp/lib-large.o" -o "$tmp/start-large"
check link-everything client -DGASNET_SEQ -DGASNET_SEGMENT_EVERYTHING "$here/start.c" "$tmp/lib-everything.o" \
    -o "$tmp/start-everything"
printf '#include <gasnetex.h>\nint other(void);\nint other(void) { return gasnet_AMPoll(); }\nint gasnet_AMPoll(void) { return 0; }\n' >"$tmp/other.c"
check_says link-wrong-second-unit 'gasneti_link_check__conduit_smp__mode_seq__release__abi_0' \
    sh -c "gcc $paths -DGASNET_SEQ -c '$tmp/other.c' -o '$tmp/other.o' && gcc $paths -DGASNET_PAR '$here/start.c' '$tmp/other.o' '$tmp/lib-par.o' -o '$tmp/wrong'"
check_says start-par 'core: mode 2, client START' "$tmp/start-par"
check_says start-direct 'core: mode 2, client DIRECT' "$tmp/start-par"
check_says start-gasnet1 'core: mode 0, GASNet-1' "$tmp/start-seq"
check_says start-large 'core: mode 2, client START, segments 1' "$tmp/start-large"
check_says start-everything 'core: mode 0, client START, segments 2' "$tmp/start-everything"
check_says start-universal 'core: mode 0, client START' "$tmp/start-any"
# foreign NAME MESSAGE STATEMENT: a client whose build information STATEMENT changes gets MESSAGE.
foreign() {
    client -DGASNET_PAR "-DFOREIGN=$3" "$here/start.c" "$tmp/lib-par.o" -o "$tmp/foreign" || return
    check_says "start-foreign-$1" "$2" "$tmp/foreign"
    check_says "start-foreign-$1-result" 'bad argument' "$tmp/foreign"
}
foreign mode 'compiled with GASNET_SEQ, the library is for GASNET_PAR' 'info.gasneti_mode = 0'
foreign odd-mode 'compiled with an unknown thread mode' 'info.gasneti_mode = 77'
foreign flavour 'compiled for the debug flavour, the library is the release flavour' 'info.gasneti_debug = 1'
foreign conduit 'compiled for the conduit udp, the library is for smp' 'memcpy(info.gasneti_conduit, "udp", 4)'
foreign segment 'compiled for GASNET_SEGMENT_LARGE' 'memcpy(info.gasneti_segment, "LARGE", 6)'
foreign abi 'interface number 99, the library has 0' 'info.gasneti_abi = 99'
foreign size 'interface number' 'info.gasneti_size = 8'
foreign layout 'lays out' 'info.gasneti_hsl_bytes = 8'
foreign unterminated 'compiled for the conduit xxxxxxxxxxxxxxxx,' 'memset(info.gasneti_conduit, 120, 16)'

# -- fences. Only clang compiles for any processor; the C library's headers for AArch64 are those of
# libc6-dev-arm64-cross.
cross=/usr/aarch64-linux-gnu/include
cat >"$tmp/between.awk" <<'EOF'
$1 == name ":" { inside = 1 }
inside && $1 == "strb" { stores++ }
inside && $1 == "dmb" && stores == 1 { between = 1 }
$1 == ".cfi_endproc" { inside = 0 }
END {
    if (stores != 2) print stores + 0, "stores, not 2"
    else if (!between) print "no barrier between the two stores"
}
EOF
cat >"$tmp/inside.awk" <<'EOF'
$1 == name ":" { inside = 1 }
inside && $1 == "dmb" { fences++ }
$1 == ".cfi_endproc" { inside = 0 }
END { if (!fences) print "no barrier in front of the comparison" }
EOF
if ! command -v clang >/dev/null; then
    echo "SKIP headers/fences: clang is not installed"
elif [ ! -e $cross/stdio.h ]; then
    echo "SKIP headers/fences: libc6-dev-arm64-cross is not installed"
else
    for source in puts comparisons; do
        check fences-compile-$source clang --target=aarch64-linux-gnu -isystem $cross -std=c11 -O2 $strict \
            -DGASNET_PAR $paths -S "$here/$source.c" -o "$tmp/$source.s"
    done
    for name in two_puts two_vis_puts; do
        check "fences-$name" awk -v name=$name -f "$tmp/between.awk" "$tmp/puts.s"
    done
    for name in local_comparison remote_comparison; do
        check "fences-$name" awk -v name=$name -f "$tmp/inside.awk" "$tmp/comparisons.s"
    done
fi

# -- run: the inline fast path
for pair in $compilers; do
    for options in -O0 -O2 -O3 '-O1 -fsanitize=address,undefined -fno-sanitize-recover=all' '-O2 -DGASNET_DEBUG'; do
        label=$(echo "$options" | tr -c 'A-Za-z0-9\n' -)
        library=lib-par.o
        case $options in *DEBUG*) library=lib-debug.o ;; esac
        echo 'int main(void) { return 0; }' >"$tmp/empty.c"
        if ! "${pair%:*}" $options "$tmp/empty.c" -o "$tmp/empty" 2>/dev/null; then
            echo "SKIP headers/run-fastpath-${pair%:*}$label: this ${pair%:*} has no library for $options"
            continue
        fi
        check "run-build-fastpath-${pair%:*}$label" "${pair%:*}" -std=c11 $options $strict -DGASNET_PAR $paths \
            "$here/fastpath.c" \
            "$tmp/$library" -o "$tmp/fastpath"
        check "run-fastpath-${pair%:*}$label" "$tmp/fastpath"
    done
done

# -- capture
cat >"$tmp/capture.c" <<'EOF'
#include <gasnetex.h>
#include <gasnet_tools.h>
TOK_never_inline GASNETT_NEVER_INLINE(fn, static int fn(int x)) TOK_
TOK_noreturn GASNETT_NORETURN TOK_
TOK_pure GASNETT_PURE TOK_
TOK_const GASNETT_CONST TOK_
TOK_hot GASNETT_HOT TOK_
TOK_cold GASNETT_COLD TOK_
TOK_true GASNETT_PREDICT_TRUE(expr) TOK_
TOK_false GASNETT_PREDICT_FALSE(expr) TOK_
TOK_hint gasnett_spinloop_hint() TOK_
TOK_unreachable gasneti_builtin_unreachable() TOK_
TOK_maxeps GASNET_MAXEPS TOK_
TOK_npam GASNET_NATIVE_NP_ALLOC_REQ_MEDIUM TOK_
TOK_hidden GASNET_HIDDEN_AM_CONCURRENCY_LEVEL TOK_
TOK_x86 PLATFORM_ARCH_X86_64 TOK_
TOK_power PLATFORM_ARCH_POWERPC TOK_
TOK_arm PLATFORM_ARCH_AARCH64 TOK_
int x = TOK1+GASNET_MAXEPS+TOK2:
EOF
# text NAME: the expansion, which must be one line.
text() { sed -n "s/^TOK_$1 *\(.*\) *TOK_\$/\1/p" "$tmp/captured" | tail -n 1; }
for pair in $compilers; do
    for flavour in GASNET_NDEBUG GASNET_DEBUG; do
        label=${pair%:*}-$flavour
        "${pair%:*}" -std=gnu11 -DGASNET_SEQ -D$flavour $paths -E "$tmp/capture.c" >"$tmp/captured" \
            2>"$tmp/captured.err"
        {
            echo "$(text never_inline) { return x; }"
            echo "$(text pure) int pure(int x); $(text const) int constant(int x); $(text hot) int hot(int x); $(text cold) int cold(int x);"
            echo "$(text noreturn) void end(void);"
            echo "#define COPIED_MAXEPS $(text maxeps)"
            echo "int capture(int expr); int capture(int expr) {"
            echo "  if ($(text true)) return fn(expr);"
            echo "  if ($(text false)) return 1;"
            echo "  do { $(text hint); } while (--expr);"
            echo "  if (expr) $(text unreachable);"
            echo "  return COPIED_MAXEPS + $(text hidden); }"
        } >"$tmp/pasted.c"
        check "capture-compiles-$label" "${pair%:*}" -std=c11 -Wall -Wextra -Werror -fsyntax-only "$tmp/pasted.c"
        check "capture-compiles-$label-c++" "${pair#*:}" -x c++ -std=c++11 -Wall -Wextra -Werror \
            -fsyntax-only "$tmp/pasted.c"
        check "capture-names-$label" sh -c '! grep -iE "gasnet|PLATFORM" "$1"' sh "$tmp/pasted.c"
        for name in never_inline noreturn pure const hot cold true false hint unreachable; do
            case $(text $name) in
            *__attribute__*'static int fn(int x)'* | '__attribute__'* | *__builtin_expect*expr* | *__asm__* | \
                *__builtin_unreachable*) : ;;
            *) check "capture-expands-$label-$name" echo "'$(text $name)' does nothing" ;;
            esac
        done
        check "capture-maxeps-$label" sh -c 'expr "$1" : "^[0-9][0-9]* *$" >/dev/null' sh "$(text maxeps)"
        check "capture-hidden-$label" sh -c 'expr "$1" : "^[0-9][0-9]* *$" >/dev/null' sh "$(text hidden)"
        check "capture-npam-$label" sh -c 'test "$1" = 1 || test "$1" = GASNET_NATIVE_NP_ALLOC_REQ_MEDIUM' \
            sh "$(text npam | tr -d ' ')"
        case $(uname -m) in
        x86_64)
            check "capture-arch-$label" test "$(text x86 | tr -d ' ')$(text arm | tr -d ' ')" = 1PLATFORM_ARCH_AARCH64
            ;;
        aarch64)
            check "capture-arch-$label" test "$(text arm | tr -d ' ')$(text x86 | tr -d ' ')" = 1PLATFORM_ARCH_X86_64
            ;;
        esac
        grep -q 'TOK1+ *[0-9][0-9]* *+TOK2:' "$tmp/captured"
        check "capture-probe-$label" test $? -eq 0
    done
done

# -- ident
for text in '$GASNetConduitName: SMP $' '$GASNetConfig: (<link>) RELEASE=2025.8.0,SPEC=0.19,CONDUIT=SMP(SMP-' \
    '$GASNetThreadModel: GASNET_PAR $' \
    ',THREADMODEL=PAR,SEGMENT=FAST,PTR=64bit,CACHE_LINE_BYTES=64,noalign,pshm,nodebug,notrace,nostats,'; do
    check_says "ident-program-$(echo "$text" | tr -cd A-Za-z | cut -c 1-24)" "$text" cat "$tmp/start-par"
done
check_says ident-debug ',debug,' cat "$tmp/start-debug"
printf '#include <gasnetex.h>\nGASNETT_IDENT(upcc_ident, "$GASNetConfig: (file.o) " GASNET_CONFIG_STRING " $");\n' >"$tmp/file.c"
check ident-own-compiles gcc -DGASNET_PAR $paths -c "$tmp/file.c" -o "$tmp/file.o"
check_says ident-own '$GASNetConfig: (file.o) RELEASE=2025.8.0,SPEC=0.19,CONDUIT=SMP(' cat "$tmp/file.o"
client -O2 -ffunction-sections -fdata-sections -Wl,--gc-sections -DGASNET_PAR "$here/start.c" "$tmp/lib-par.o" \
    -o "$tmp/collected"
check_says ident-gc-sections '$GASNetConduitName: SMP $' cat "$tmp/collected"
for line in 'GASNET_RELEASE_VERSION_MAJOR 2025' 'GASNET_RELEASE_VERSION_MINOR 8' 'GASNET_RELEASE_VERSION_PATCH 0' \
    'GASNETI_EX_SPEC_VERSION_MAJOR 0' 'GASNETI_EX_SPEC_VERSION_MINOR 19' 'GASNETI_RELEASE_VERSION "2025.8.0"'; do
    check "config-$(echo "$line" | tr ' ."' ---)" grep -qx "#define $line" "$include/gasnet_config.h"
done
for name in GASNETI_BUILD_ID GASNETI_CONFIGURE_ARGS; do
    check "config-$name" grep -q "^#define $name \".*\"\$" "$include/gasnet_config.h"
done
# Clients that include nothing else: GASNet-examples call sleep.
for header in gasnetex.h gasnet.h gasnet_tools.h; do
    printf '#include <%s>\nint main(void) {\n    printf("%%d%%zu", isdigit(getc(stdin)) + raise(SIGINT) + abs(INT_MAX), strlen(getenv("PATH")));\n    return (int)sleep(getpid() == (pid_t)1);\n}\n' \
        $header >"$tmp/system.c"
    for pair in $compilers; do
        check "system-headers-$header-${pair%:*}" "${pair%:*}" -std=gnu11 -DGASNET_SEQ -Wall -Wextra -Werror $paths \
            -fsyntax-only "$tmp/system.c"
        check "system-headers-$header-${pair#*:}" "${pair#*:}" -x c++ -std=gnu++11 -DGASNET_SEQ -Wall -Wextra -Werror \
            $paths -fsyntax-only "$tmp/system.c"
    done
done
check tree-conduit test -f "$include/smp-conduit/gasnet_core.h"
# A conduit by name. The linker symbol names the one that was found.
printf '#include <gasnetex.h>\n' >"$tmp/named.c"
named() { ${compiler%:*} -DGASNET_SEQ -I"$include" "$@" -E "$tmp/named.c"; }
for compiler in $compilers; do
    for folder in "$include"/*-conduit; do
        name=$(basename "$folder" -conduit)
        option=-DGASNET_CONDUIT_$(echo "$name" | tr '[:lower:]' '[:upper:]')
        check_says "named-$name-${compiler%:*}" "gasneti_link_check__conduit_${name}__mode_seq" named "$option"
    done
    check_says "named-foreign-${compiler%:*}" "this release has no conduit mxm" named -DGASNET_CONDUIT_MXM
    check_says "named-another-${compiler%:*}" "is another conduit than" named -I"$include/smp-conduit" \
        -DGASNET_CONDUIT_SOCK
done

echo "headers: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
