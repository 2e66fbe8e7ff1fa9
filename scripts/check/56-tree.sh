# The installed files as clients' build systems scrape them: config header, wildcards, tokens of
# makefile fragments and .pc files, variables on make's command line, archives taken apart or linked
# whole or together, manual pages. The reasons are in docs/compat.md, "The installed tree".
. "$(dirname -- "$0")/lib.sh"
scratch
HELLO=$ROOT/examples/client/hello.c
P=$STAGE_RELEASE
NP=3
export GASNET_PSHM_NODES=$NP
unset GASNET_PREFIX CFLAGS CPPFLAGS CXXFLAGS LDFLAGS

says_hello() {
    _label=$1
    shift
    if timeout 60 "$@" 2>&1 | grep -qi "^hello from $NP ranks over smp"; then
        pass "tree: $_label"
    else
        fail "tree: $_label: no greeting of $NP ranks"
    fi
}
# value FRAGMENT VARIABLE [make arguments]
value() {
    _fragment=$1 _variable=$2
    shift 2
    printf 'include %s\nshow:\n\t@echo $(%s)\n' "$_fragment" "$_variable" | make -s -f - show "$@"
}

# ---- gasnet_config.h, as osss (awk), UPC++ (grep) and Caffeine read it ----
config=$P/include/gasnet_config.h
for part in MAJOR:2025 MINOR:8 PATCH:0; do
    same "tree: release version ${part%:*} is a literal in field 3" \
        "$(awk "/GASNET_RELEASE_VERSION_${part%:*}/ { print \$3 }" "$config")" "${part#*:}"
done
for part in MAJOR:0 MINOR:19; do
    same "tree: specification version ${part%:*} is the first match" \
        "$(grep "EX_SPEC_VERSION_${part%:*}" "$config" | head -n 1 | grep -o ' [0-9][0-9]*' | head -n 1)" " ${part#*:}"
done
odd=
for name in GASNETI_RELEASE_VERSION GASNETI_BUILD_ID GASNETI_CONFIGURE_ARGS; do
    grep -Eq "^#define $name \"[^\"]+\"\$" "$config" || odd="$odd $name"
done
good "tree: strings of gasnet_config.h stand on a line each" "$odd"

# ---- wildcards ----
conduits=
for folder in "$P"/include/*-conduit; do conduits="$conduits $(basename "$folder" -conduit)"; done
same "tree: conduits are found by wildcard" "$conduits" \
    " $("$ROOT/scripts/build/conduits.sh" --all | tr ' ' '\n' | sort | tr '\n' ' ' | sed 's/ $//')"
odd='' list=''
for conduit in $conduits; do
    for mode in seq parsync par; do
        name=$conduit-$mode
        list="$list $name"
        for file in "include/$conduit-conduit/$name.mak" "lib/libgasnet-$name.a" "lib/pkgconfig/gasnet-$name.pc"; do
            [ -r "$P/$file" ] || odd="$odd $file"
        done
        ls "$P"/lib/libgasnet-"$name".* >/dev/null 2>&1 || odd="$odd lib/libgasnet-$name.*"
    done
    for file in "$P/include/$conduit-conduit"/*.mak; do
        case " $list " in *" $(basename "$file" .mak) "*) ;; *) odd="$odd $file(unexpected)" ;; esac
    done
    [ -x "$P/bin/gasnetrun_$conduit" ] || odd="$odd bin/gasnetrun_$conduit"
    [ -r "$P/include/$conduit-conduit/gasnet_core.h" ] || odd="$odd $conduit-conduit/gasnet_core.h"
done
for mode in seq par; do
    for file in "include/gasnet_tools-$mode.mak" "lib/libgasnet_tools-$mode.a" "lib/pkgconfig/gasnet_tools-$mode.pc"; do
        [ -r "$P/$file" ] || odd="$odd $file"
    done
done
for file in lib/libgasnet.a lib/pkgconfig/gasnet.pc include/gasnet.mak; do [ -r "$P/$file" ] || odd="$odd $file"; done
for file in gasnetrun ident; do [ -x "$P/bin/$file" ] || odd="$odd bin/$file"; done
good "tree: libraries, fragments and programs have the names that clients put together" "$odd"

# ---- tokens of every fragment and .pc file ---- only PATTERN WORDS...: lists the words that do not
# match.
only() {
    _kinds=$1
    shift
    for _word in "$@"; do
        case $_word in -I* | -D* | -L* | \
            -l*) case $_kinds in *"${_word%"${_word#??}"}"*) ;; *) printf ' %s' "$_word" ;; esac ;; *) printf ' %s' \
            "$_word" ;; esac
    done
}
odd='' libraries=
for stage in "$P" "$STAGE_DEBUG"; do
    for file in "$stage"/include/*-conduit/*.mak "$stage"/include/gasnet.mak "$stage"/include/gasnet_tools-*.mak; do
        prefix=GASNET
        case $file in *gasnet_tools-*) prefix=GASNETTOOLS ;; esac
        libs=$(value "$file" ${prefix}_LIBS)
        libraries="$libraries $libs"
        case $libs in "-L$stage/lib "*) ;; *) odd="$odd ${file##*/}:first-of-LIBS" ;; esac
        # shellcheck disable=SC2086 # words
        odd="$odd$(only "-L -l" $libs)"
        cpp=$(value "$file" ${prefix}_CPPFLAGS)
        # shellcheck disable=SC2086
        odd="$odd$(only "-I -D" $cpp)"
        case $cpp in "-D_GNU_SOURCE=1 "*) ;; *) odd="$odd ${file##*/}:first-of-CPPFLAGS" ;; esac
        [ "$(value "$file" ${prefix}_LDFLAGS)" = "-O2" ] || odd="$odd ${file##*/}:LDFLAGS"
        [ "$(value "$file" ${prefix}_LD)" = "$(value "$file" ${prefix}_CC)" ] || odd="$odd ${file##*/}:LD"
        ! grep -q '^ *override\|:=' "$file" || odd="$odd ${file##*/}:not-plain"
        grep -qF "$stage" "$file" || odd="$odd ${file##*/}:prefix-not-literal"
    done
done
good "tree: fragments: LIBS of -L and -l, CPPFLAGS of -I and -D, plain variables, a literal prefix" "$odd"
from=$(value "$P/include/smp-conduit/smp-par.mak" GASNET_LIBS | sed 's|^-L\([^ ]*\)/lib .*|\1|')
attempt "tree: the prefix follows from GASNET_LIBS" [ -r "$from/include/gasnetex.h" ]
compiler=$(value "$P/include/smp-conduit/smp-par.mak" GASNET_CC)
same "tree: GASNET_CC is the C compiler that was used" "$(realpath "$(command -v "${compiler%% *}")")" \
    "$(realpath "$(command -v "${CC%% *}")")"

odd=
for file in "$P"/lib/pkgconfig/*.pc "$STAGE_DEBUG"/lib/pkgconfig/*.pc; do
    odd="$odd$(awk -v file="${file##*/}" '
        /^#/ { next }
        /^Requires/ { printf " %s:Requires", file }
        match($0, /^[A-Za-z_]+=/) { name = substr($0, 1, RLENGTH - 1) }
        { rest = $0; while (match(rest, /\$\{[A-Za-z_]+\}/)) {
            used = substr(rest, RSTART + 2, RLENGTH - 3)
            if (!(used in known)) printf " %s:%s-used-before", file, used
            rest = substr(rest, RSTART + RLENGTH) } }
        /^[A-Za-z_]+=/ { known[name] = 1 }
        /^(Name|Description|Version|Cflags|Libs): ./ { fields++ }
        END { if (fields != 5) printf " %s:fields", file }' "$file")"
    grep -qF "GASNET_PREFIX=${file%/lib/pkgconfig/*}" "$file" || odd="$odd ${file##*/}:prefix-not-literal"
    name=$(basename "$file" .pc)
    for variable in prefix libdir includedir; do
        [ -d "$(PKG_CONFIG_PATH=${file%/*} pkg-config --variable=$variable "$name")" ] || odd="$odd $name:$variable"
    done
    words=$(PKG_CONFIG_PATH=${file%/*} pkg-config --cflags-only-other --cflags-only-I "$name")
    [ -n "$words" ] || odd="$odd $name:no-flags"
    case $(sed -n 's/^\(GASNET\|GASNETTOOLS\)_\(CPPFLAGS\|DEFINES\)=//p' "$file" |
        head -n 1) in -D_GNU_SOURCE=1*) ;; *) odd="$odd $name:first-of-Cflags" ;; esac
    case $name in *-shared) continue ;; esac
    # shellcheck disable=SC2046
    odd="$odd$(only "-L -l" $(PKG_CONFIG_PATH=${file%/*} pkg-config --libs "$name" | sed 's/^-O2 //'))"
done
good "tree: .pc files: no Requires, nothing used before it is defined, -D_GNU_SOURCE=1 first, a literal prefix" "$odd"

# Each library of the link lines can be found by CMake's find_library, in the folders that stand
# before it or the system's.
# shellcheck disable=SC2086
names=$(printf '%s\n' $libraries | sed -n 's/^-l//p' | sort -u | tr '\n' ' ')
cat >"$WORK/find.cmake" <<EOF
foreach(_name $names)
  find_library(LIBRARY_\${_name} NAMES \${_name} HINTS "$P/lib"
    PATHS /usr/lib/$("$CC" -print-multiarch 2>/dev/null || :) /lib64 /usr/lib64)
  if(NOT LIBRARY_\${_name})
    message(FATAL_ERROR "no \${_name}")
  endif()
endforeach()
EOF
! has_tool cmake "tree: find_library" || attempt "tree: every -l is found by find_library" cmake -P "$WORK/find.cmake"

# ---- variables on make's command line, and the hooks ----
fragment=$P/include/smp-conduit/smp-par.mak
odd=
while read -r kind names; do
    [ "$kind" = conduit.mak: ] || continue
    for name in $names; do [ "$(value "$fragment" "$name" "$name=mine")" = mine ] || odd="$odd $name"; done
done <"$ROOT/scripts/check/fragment-variables.txt"
good "tree: every variable of a fragment may be set on make's command line" "$odd"
odd=
for hook in DEFINES:GASNET_CPPFLAGS DEFINES:GASNET_CXXCPPFLAGS CFLAGS:GASNET_CFLAGS CXXFLAGS:GASNET_CXXFLAGS \
    LDFLAGS:GASNET_LDFLAGS LIBS:GASNET_LIBS; do
    case " $(value "$fragment" "${hook#*:}" "MANUAL_${hook%:*}=-hook") " in *" -hook "*) ;; *) odd="$odd $hook" ;; esac
done
good "tree: the MANUAL hooks reach their variables" "$odd"
same "tree: a prefix given to make moves everything" \
    "$(value "$fragment" GASNET_LIBS GASNET_PREFIX=/else | cut -d ' ' -f 1) $(
        value "$fragment" GASNET_INCLUDES GASNET_PREFIX=/else)" \
    "-L/else/lib -I/else/include -I/else/include/smp-conduit"

# ---- archives ----
libs="-L$P/lib -lgasnet-smp-par -lpthread -ldl -lm"
flags="-DGASNET_PAR -I$P/include -I$P/include/smp-conduit"
# shellcheck disable=SC2086
attempt "tree: hello compiles" "$CC" $flags -c "$HELLO" -o "$WORK/hello.o"
if attempt "tree: a shared library of the archive's objects" \
    sh -c "mkdir '$WORK/x' && cd '$WORK/x' && ar -x '$P/lib/libgasnet-smp-par.a' && '$CC' -shared -o ../libmine.so *.o -lpthread -ldl -lm" &&
    attempt "tree: a program with that library" "$CC" "$WORK/hello.o" -o "$WORK/mine" -L"$WORK" \
    -lmine -Wl,-rpath,"$WORK"; then
    says_hello "a program with that library runs" "$WORK/mine"
fi
# shellcheck disable=SC2086
if attempt "tree: the whole archive" "$CC" "$WORK/hello.o" -o "$WORK/whole" -Wl,--whole-archive -L"$P/lib" \
    -lgasnet-smp-par -Wl,--no-whole-archive -lpthread -ldl -lm; then
    says_hello "a program with the whole archive runs" "$WORK/whole"
fi
cat >"$WORK/both.c" <<EOF
#include <gasnet_tools.h>
unsigned long both_ticks(void);
unsigned long both_ticks(void) {
    return (unsigned long)gasnett_ticks_to_ns(gasnett_ticks_now()) + (unsigned long)gasnett_cpu_count();
}
EOF
cat >"$WORK/main.c" <<EOF
unsigned long both_ticks(void);
#define main hello_main
#include "$HELLO"
#undef main
int main(int argc, char **argv) { return both_ticks() != 0 ? hello_main(argc, argv) : 1; }
EOF
# shellcheck disable=SC2086
attempt "tree: a tools-only object compiles" "$CC" -DGASNETT_THREAD_SAFE -I"$P/include" -c "$WORK/both.c" \
    -o "$WORK/both.o"
# The other way round is not allowed (README-tools): a conduit's library has the tools.
# shellcheck disable=SC2086
if attempt "tree: a conduit's archive and the tools' in one program" "$CC" $flags "$WORK/main.c" "$WORK/both.o" \
    -o "$WORK/two" $libs -lgasnet_tools-par; then
    says_hello "a program with both archives runs" "$WORK/two"
fi

# ---- completion ----
odd=
for program in "$P"/bin/gasnetrun_* "$P"/bin/gasnet_info "$P"/bin/gasnet_trace; do
    name=${program##*/}
    completed=$(cd "$P/share/bash-completion/completions" && bash -c '. ./"$1" && complete -p "$1" >/dev/null &&
        COMP_WORDS=("$2" -) COMP_CWORD=1 && _gasnet && echo "${COMPREPLY[*]}"' bash "$name" "$program")
    case $completed in *-help*) ;; *) odd="$odd $name" ;; esac
    grep -qw "$name" "$P/share/zsh/site-functions/_gasnet" || odd="$odd $name(zsh)"
done
good "tree: shells complete the options of programs" "$odd"

# ---- manual pages ----
# Conduits for tests have none.
public=$("$ROOT/scripts/build/conduits.sh")
odd=
for program in "$P"/bin/*; do
    name=${program##*/}
    [ "$name" != ident ] || continue
    case $name in gasnetrun_*) case " $public " in *" ${name#gasnetrun_} "*) ;; *) continue ;; esac ;; esac
    [ -r "$P/share/man/man1/$name.1" ] || odd="$odd $name.1"
done
good "tree: every program has a manual page" "$odd"
odd=
for page in "$ROOT"/docs/man/man*/*; do
    installed=${page#"$ROOT/docs/man/"}
    cmp -s "$page" "$P/share/man/$installed" || odd="$odd $installed"
done
good "tree: every page is installed as it is" "$odd"
odd=$(cd "$P/share/man" && grep -h '^[.]so ' man3/* | sort -u | while read -r _ page; do
    if [ ! -r "$page" ] || grep -q '^[.]so ' "$page"; then printf ' %s' "$page"; fi
done)
good "tree: every function's page leads to one that is there" "$odd"
if has_tool mandoc "tree: manual pages by mandoc"; then
    for page in "1 gasnetrun_smp" "3 gex_RMA_PutNB" "3 gex_AM_RequestShort0" "3 gasnett_ticks_now" \
        "3 gasnet_init" "7 gasnet" "7 gasnet_env"; do
        # shellcheck disable=SC2086
        attempt "tree: man $page" sh -c 'cd "$1/share/man" && mandoc -T html "man$2/$3.$2" | grep -q "id=.NAME"' \
            sh "$P" $page
    done
    (cd "$P/share/man" && mandoc -T lint -W warning man1/*.1 man7/*.7 "$ROOT"/docs/man/man3/*.3) >"$WORK/lint" 2>&1
    good "tree: manual pages are clean (mandoc)" "$(head -n 3 "$WORK/lint" | sed 's/^/ /')"
fi
attempt "tree: manual pages, headers and export lists agree" python3 -B "$ROOT/scripts/check/man.py" \
    --include "$P/include" --pages "$P/share/man" --cc "$CC"

# ---- pages, the module, examples/client/, and the Spack recipe ----
attempt "tree: links of the installed pages" python3 -B "$ROOT/scripts/docs/links.py" "$P/share/doc/gasnet"
for module in "$P"/share/modulefiles/gasnet/*.lua; do
    same "tree: the module names the installation" "$(sed -n 's/^local prefix = "\(.*\)"$/\1/p' "$module")" "$P"
done
cp -R "$P/share/doc/gasnet/examples/client" "$WORK/client"
cd "$WORK/client" || exit 1
cat >"$WORK/greetings" <<'EOF'
hello from 3 ranks over smp
rank 0: hello from rank 2; thanks from rank 1
rank 1: hello from rank 0; thanks from rank 2
rank 2: hello from rank 1; thanks from rank 0
EOF
greets() {
    timeout 60 "$2" 2>&1 | sed 's/ANY$/smp/' | LC_ALL=C sort >"$WORK/greeted"
    if diff -i "$WORK/greetings" "$WORK/greeted" >"$WORK/log"; then
        pass "tree: $1 runs"
    else
        fail "tree: $1 prints something else: $(tail -n 3 "$WORK/log" | tr '\n' ' ')"
    fi
}
attempt "tree: client by fragment" make -s -f fragment.mk GASNET_PREFIX="$P" && greets "client by fragment" ./hello
rm -f hello
attempt "tree: client by pkg-config" make -s -f pkg-config.mk CC="$CC" \
    PKG_CONFIG="env PKG_CONFIG_PATH=$P/lib/pkgconfig pkg-config" && greets "client by pkg-config" ./hello
if has_tool cmake "tree: client by CMake"; then
    attempt "tree: client by CMake" sh -c "cmake -S . -B build -DCMAKE_PREFIX_PATH='$P' && cmake --build build" &&
        greets "client by CMake" build/hello
    rm -rf build
    attempt "tree: client by CMake, universal" \
        sh -c "cmake -S . -B build -DCMAKE_PREFIX_PATH='$P' -DGASNET_TARGET=gasnet-shared && cmake --build build" &&
        greets "client by CMake, universal" build/hello
    attempt "tree: client by CMake says what is missing" \
        sh -c "! cmake -S . -B none -DCMAKE_PREFIX_PATH='$P' -DGASNET_TARGET=nothing >log 2>&1 &&
            tr -s '\\n ' '  ' <log | grep -q 'has no nothing'"
fi
attempt "tree: the Spack recipe builds and installs by the makefile's variables" python3 \
    -B "$ROOT/scripts/check/spack_recipe.py" "$ROOT/scripts/spack/packages/gasnet/package.py" "$ROOT"
finish
