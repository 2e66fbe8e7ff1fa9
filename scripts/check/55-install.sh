# The installation as clients use it: fragment, pkg-config, CMake, shared library, tokens picked out
# by hand, static executables, other Rust libraries in the same link, a moved prefix, DESTDIR,
# uninstall; and links that must fail.
. "$(dirname -- "$0")/lib.sh"
scratch
HELLO=$ROOT/examples/client/hello.c
NP=3
export GASNET_PSHM_NODES=$NP

# expect NAME PROGRAM...: the program prints the hello line of all ranks.
expect() {
    _label=$1
    shift
    _out=$(timeout 60 "$@" 2>&1)
    _status=$?
    if [ $_status -eq 0 ] && printf '%s\n' "$_out" |
        grep -qi "^hello from $NP ranks over smp"; then pass "$_label"; else
        fail "$_label exit status $_status: $(printf '%s\n' "$_out" | tail -n 3 | tr '\n' ' ')"
    fi
}

# named NAME PROGRAM: upcxx-run starts only programs with this string, whatever they were linked
# with.
named() {
    if grep -aqF '$GASNetConduitName: SMP $' "$2"; then
        pass "$1 names its conduit"
    else
        fail "$1 does not name its conduit"
    fi
}

# fragment PREFIX MODE OUT [make arguments]: compiles hello through the makefile fragment.
fragment() {
    _prefix=$1 _mode=$2 _out=$3
    shift 3
    printf 'include %s/include/smp-conduit/smp-%s.mak\nall:\n\t$(GASNET_CC) $(GASNET_CPPFLAGS) $(GASNET_CFLAGS) -c %s -o %s.o\n\t$(GASNET_LD) $(GASNET_LDFLAGS) %s.o $(GASNET_LIBS) -o %s\n' \
        "$_prefix" "$_mode" "$HELLO" "$_out" "$_out" "$_out" >"$_out.mak"
    make -s -f "$_out.mak" all "$@"
}

value() { # FRAGMENT VARIABLE
    printf 'include %s\nshow:\n\t@echo $(%s)\n' "$1" "$2" | make -s -f - show
}

pc() { PKG_CONFIG_PATH=$1/lib/pkgconfig; export PKG_CONFIG_PATH; shift; pkg-config "$@"; }

for mode in seq parsync par; do
    for stage in "$STAGE_RELEASE" "$STAGE_DEBUG"; do
        label="install: fragment smp-$mode ${stage##*-}"
        if attempt "$label compiles" fragment "$stage" $mode "$WORK/f"; then
            expect "$label runs" "$WORK/f"; named "$label" "$WORK/f"
        fi
    done
    # shellcheck disable=SC2046 # flags are words
    if attempt "install: pkg-config smp-$mode compiles" "$CC" "$HELLO" -o "$WORK/p" \
        $(pc "$STAGE_RELEASE" --cflags --libs gasnet-smp-$mode); then
        expect "install: pkg-config smp-$mode runs" "$WORK/p"
    fi
    # shellcheck disable=SC2046
    if attempt "install: pkg-config smp-$mode-shared compiles" "$CC" "$HELLO" -o "$WORK/s" \
        $(pc "$STAGE_RELEASE" --cflags --libs gasnet-smp-$mode-shared); then
        expect "install: pkg-config smp-$mode-shared runs" "$WORK/s"
        named "install: pkg-config smp-$mode-shared" "$WORK/s"
        readelf -d "$WORK/s" | grep -q "NEEDED.*libgasnet-smp-$mode.so.0" ||
            fail "install: smp-$mode-shared: not linked with the shared library"
    fi
done

# Fragments: every variable that clients read, and only -L and -l words in GASNET_LIBS.
missing=
while read -r kind names; do
    case $kind in
    conduit.mak:) file=$STAGE_RELEASE/include/smp-conduit/smp-par.mak ;;
    tools.mak:) file=$STAGE_RELEASE/include/gasnet_tools-par.mak ;;
    conduit.pc:) file=$STAGE_RELEASE/lib/pkgconfig/gasnet-smp-par.pc ;;
    tools.pc:) file=$STAGE_RELEASE/lib/pkgconfig/gasnet_tools-par.pc ;;
    *) continue ;;
    esac
    for name in $names; do grep -q "^$name *=" "$file" || missing="$missing $kind$name"; done
done <"$ROOT/scripts/check/fragment-variables.txt"
good "install: fragments define every variable" "$missing"

libs=$(value "$STAGE_RELEASE/include/smp-conduit/smp-par.mak" GASNET_LIBS)
case $libs in
"-L$STAGE_RELEASE/lib "*) pass "install: GASNET_LIBS begins with the library folder" ;;
*) fail "install: GASNET_LIBS begins with something else: $libs" ;;
esac
odd=
for word in $libs; do case $word in -L* | -l*) ;; *) odd="$odd $word" ;; esac; done
good "install: GASNET_LIBS has only -L and -l words" "$odd"
hooks=$(printf \
    'MANUAL_LIBS = -lhook\nMANUAL_DEFINES = -DHOOK\ninclude %s\nshow:\n\t@echo $(GASNET_LIBS) $(GASNET_CPPFLAGS)\n' \
    "$STAGE_RELEASE/include/smp-conduit/smp-par.mak" | make -s -f - show)
case $hooks in
*-lhook*-DHOOK*) pass "install: MANUAL hooks" ;;
*) fail "install: MANUAL hooks are ignored: $hooks" ;;
esac

# A client that keeps only the -I, -L and -l words, and names the conduit and the mode itself.
if attempt "install: hand-made flags compile" "$CC" -std=gnu99 -DGASNET_PAR -DGASNET_CONDUIT_SMP \
    -I"$STAGE_RELEASE/include" \
    -I"$STAGE_RELEASE/include/smp-conduit" "$HELLO" -o "$WORK/h" -L"$STAGE_RELEASE/lib" \
    -lgasnet-smp-par -lpthread -lm; then
    expect "install: hand-made flags run" "$WORK/h"
fi
expect "install: launcher" env -u GASNET_PSHM_NODES "$STAGE_RELEASE/bin/gasnetrun_smp" -n $NP "$WORK/h"

# shellcheck disable=SC2046
if attempt "install: static executable links" "$CC" -static "$HELLO" -o "$WORK/static" \
    $(pc "$STAGE_RELEASE" --static --cflags --libs gasnet-smp-par); then
    expect "install: static executable runs" "$WORK/static"
    strip "$WORK/static"
    named "install: static executable, stripped" "$WORK/static"
fi
if "$STAGE_RELEASE/bin/ident" "$WORK/h" |
    grep -qi 'GASNetConduitName: smp'; then pass "install: ident finds the conduit's name in a program"; else
    fail "install: ident does not find GASNetConduitName in a program:" \
        "$("$STAGE_RELEASE/bin/ident" "$WORK/h" | head -n 5 | tr '\n' ' ')"
fi
# UPC++'s upcxx-run takes each of these for a conduit.
printf '#include <gasnetex.h>\nint second(void) { return gex_System_QueryJobSize() > 0; }\n' >"$WORK/second.c"
# shellcheck disable=SC2046
if attempt "install: two files compile" "$CC" -O0 "$HELLO" "$WORK/second.c" -o "$WORK/two" \
    $(pc "$STAGE_RELEASE" --cflags --libs gasnet-smp-par); then
    same "install: a program names its conduit once" "$(grep -aoF '$GASNetConduitName:' "$WORK/two" | wc -l)" 1
fi

# C++, with the fragment's C++ flags.
cat >"$WORK/hello.cc" <<EOF
#include "$HELLO"
EOF
# shellcheck disable=SC2046
if attempt "install: C++ compiles" "$CXX" -std=c++17 "$WORK/hello.cc" -o "$WORK/cc" \
    $(pc "$STAGE_RELEASE" --cflags --libs gasnet-smp-par); then
    expect "install: C++ runs" "$WORK/cc"
    named "install: C++" "$WORK/cc"
fi

# A program that includes none of our headers, as one in another language: the archive brings the
# string.
echo 'extern int gasnet_init(int *, char ***); int main(int c, char **v) { return gasnet_init(&c, &v); }' >"$WORK/foreign.c"
# shellcheck disable=SC2046
if attempt "install: a client without headers links" "$CC" -w "$WORK/foreign.c" -Wl,--gc-sections -o "$WORK/foreign" \
    $(pc "$STAGE_RELEASE" --libs gasnet-smp-seq); then
    named "install: a client without headers" "$WORK/foreign"
fi

# CMake, static and shared.
mkdir -p "$WORK/cmake"
cat >"$WORK/cmake/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.16)
project(hello C)
find_package(GASNet 2025 REQUIRED COMPONENTS smp-par)
add_executable(hello_static "$HELLO")
target_link_libraries(hello_static GASNet::smp-par)
add_executable(hello_shared "$HELLO")
target_link_libraries(hello_shared GASNet::smp-par-shared)
EOF
cmake_build() {
    cmake -S "$WORK/cmake" -B "$WORK/cmake/build" -DCMAKE_PREFIX_PATH="$1" && cmake --build "$WORK/cmake/build"
}
if has_tool cmake "install: CMake" && attempt "install: CMake builds" cmake_build "$STAGE_RELEASE"; then
    expect "install: CMake static runs" "$WORK/cmake/build/hello_static"
    expect "install: CMake shared runs" "$WORK/cmake/build/hello_shared"
    named "install: CMake static" "$WORK/cmake/build/hello_static"
    named "install: CMake shared" "$WORK/cmake/build/hello_shared"
    # A system whose /lib is a link to usr/lib.
    mkdir "$WORK/root"
    ln -s "$STAGE_RELEASE" "$WORK/root/usr"
    ln -s usr/lib "$WORK/root/lib"
    attempt "install: CMake through a link" \
        sh -c "rm -rf '$WORK/cmake/build' && cmake -S '$WORK/cmake' -B '$WORK/cmake/build' -DGASNet_DIR='$WORK/root/lib/cmake/GASNet' &&
        cmake --build '$WORK/cmake/build'"
fi

# shellcheck source=cmake.sh
! has_tool cmake "install: CMake, other projects" || . "$ROOT/scripts/check/cmake.sh"

# The shared library opened by an interpreter, names kept local.
expect "install: shared library from Python" python3 "$ROOT/scripts/check/dlopen.py" \
    "$STAGE_RELEASE/lib/libgasnet-smp-par.so.0"

# Beside another Rust static library, in either order.
cat >"$WORK/other.rs" <<'EOF'
use std::collections::HashMap;
#[no_mangle]
pub extern "C" fn other_work(n: u32) -> u32 {
    let map: HashMap<u32, u32> = (0..n).map(|i| (i, i)).collect();
    std::thread::spawn(move || map.values().sum()).join().unwrap_or(0)
}
EOF
cat >"$WORK/both.c" <<EOF
extern unsigned other_work(unsigned);
#define main hello_main
#include "$HELLO"
#undef main
int main(int argc, char **argv) { return other_work(10) == 45 ? hello_main(argc, argv) : 1; }
EOF
if attempt "install: another Rust library builds" rustc --edition 2021 --crate-type staticlib -O -o "$WORK/libother.a" \
    "$WORK/other.rs"; then
    # shellcheck disable=SC2046
    if attempt "install: links before another Rust library" "$CC" "$WORK/both.c" -o "$WORK/b1" \
        $(pc "$STAGE_RELEASE" --cflags --libs gasnet-smp-par) "$WORK/libother.a"; then
        expect "install: runs beside another Rust library" "$WORK/b1"
    fi
    # shellcheck disable=SC2046
    if attempt "install: links after another Rust library" "$CC" "$WORK/both.c" -o "$WORK/b2" "$WORK/libother.a" \
        $(pc "$STAGE_RELEASE" --cflags --libs gasnet-smp-par); then
        expect "install: runs after another Rust library" "$WORK/b2"
    fi
fi

# Mismatches must not link, and the missing name must say which library it is about.
mismatch() { # NAME LIBRARY FLAGS...
    _label=$1 _library=$2
    shift 2
    if "$CC" "$@" "$HELLO" -o "$WORK/mismatch" -L"$STAGE_RELEASE/lib" "$_library" \
        -lpthread -ldl -lm 2>"$WORK/messages"; then
        fail "install: $_label links"
    elif grep -q 'undefined reference.*gasnet' "$WORK/messages"; then
        pass "install: $_label does not link: $(sed -n 's/.*undefined reference to .\(gasnet[a-zA-Z0-9_]*\).*/\1/p' "$WORK/messages" | head -n 1)"
    else
        fail "install: $_label fails for another reason: $(head -n 1 "$WORK/messages")"
    fi
}
inc="-I$STAGE_RELEASE/include -I$STAGE_RELEASE/include/smp-conduit"
# shellcheck disable=SC2086
mismatch "SEQ objects with the PAR library" -lgasnet-smp-par -DGASNET_SEQ $inc
# shellcheck disable=SC2086
mismatch "PAR objects with the PARSYNC library" -lgasnet-smp-parsync -DGASNET_PAR $inc
# shellcheck disable=SC2086
mismatch "smp objects with the sock library" -lgasnet-sock-par -DGASNET_PAR $inc
mismatch "debug objects with the release library" -lgasnet-smp-par -DGASNET_PAR -I"$STAGE_DEBUG/include" \
    -I"$STAGE_DEBUG/include/smp-conduit"
for segment in large everything; do
    other=$STAGE_RELEASE-$segment/include
    mismatch "objects for SEGMENT=$segment with the FAST library" -lgasnet-smp-par -DGASNET_PAR -I"$other" \
        -I"$other/smp-conduit"
done

# A prefix that was moved: only sed on the fragments and pkg-config files.
cp -R "$STAGE_RELEASE" "$WORK/moved"
find "$WORK/moved" \( -name '*.mak' -o -name '*.pc' \) -exec sed -i "s|$STAGE_RELEASE|$WORK/moved|g" {} +
if grep -rlF --include='*.mak' --include='*.pc' --include='*.cmake' "$STAGE_RELEASE" \
    "$WORK/moved" >"$WORK/messages"; then
    fail "install: moved prefix: still named in $(head -n 3 "$WORK/messages")"
fi
if attempt "install: moved prefix, fragment compiles" fragment "$WORK/moved" par "$WORK/m"; then
    expect "install: moved prefix, fragment runs" "$WORK/m"
fi
rm -rf "$WORK/cmake/build"
if has_tool cmake "install: moved prefix, CMake" &&
    attempt "install: moved prefix, CMake builds" cmake_build "$WORK/moved"; then
    expect "install: moved prefix, CMake runs" "$WORK/cmake/build/hello_shared"
fi

# DESTDIR, and uninstall leaves what was there before and nothing else.
mkdir -p "$WORK/dest/opt/gasnet/lib"
echo mine >"$WORK/dest/opt/gasnet/lib/mine.txt"
(cd "$WORK/dest" && find . | sort) >"$WORK/before"
quiet_make() {
    make --no-print-directory -C "$ROOT" "$@" CONDUITS=smp UNIVERSAL=0 MODES="seq parsync par" DEBUG=0
}
if attempt "install: DESTDIR" quiet_make install DESTDIR="$WORK/dest" PREFIX=/opt/gasnet; then
    good "install: DESTDIR is not named in the installed files" "$(grep -rlF "$WORK/dest" "$WORK/dest")"
    attempt "install: again over itself" quiet_make install DESTDIR="$WORK/dest" PREFIX=/opt/gasnet
    attempt "install: uninstall" quiet_make uninstall DESTDIR="$WORK/dest" PREFIX=/opt/gasnet
    (cd "$WORK/dest" && find . | sort) >"$WORK/after"
    attempt "install: uninstall leaves nothing" diff "$WORK/before" "$WORK/after"
fi
# Clients that build GASNet themselves need none.
attempt "install: without conduits" make --no-print-directory -C "$ROOT" install CONDUITS= UNIVERSAL=0 MODES=par \
    DEBUG=0 DESTDIR= PREFIX="$WORK/none"
# Fewer conduits than those of a universal library that is installed: it stays. With all of them it
# is replaced.
install_into() {
    env DESTDIR= PREFIX="$1" MODES="seq parsync par" UNIVERSAL=1 CONDUITS="$2" "$ROOT/scripts/install/install.sh"
}
cp -R "$STAGE_RELEASE" "$WORK/more"
has_all=$(head -n 1 "$WORK/more/include/gasnet.mak")
rm "$WORK/more/lib/libgasnet-smp-par.a" "$WORK/more/lib/libgasnet.a"
if install_into "$WORK/more" smp >"$WORK/messages" 2>&1 && grep -q 'kept: the universal library' "$WORK/messages" &&
    [ "$(head -n 1 "$WORK/more/include/gasnet.mak")" = "$has_all" ] && [ -f "$WORK/more/lib/libgasnet-smp-par.a" ] &&
    [ ! -e "$WORK/more/lib/libgasnet.a" ]; then
    pass "install: a universal library with more conduits stays"
else
    fail "install: a universal library with more conduits is replaced: $(tail -n 3 "$WORK/messages" | tr '\n' ' ')"
fi
conduits=$(conduits_of release)
if install_into "$WORK/more" "$conduits" >"$WORK/messages" 2>&1 && ! grep -q kept: "$WORK/messages" &&
    [ -e "$WORK/more/lib/libgasnet.a" ]; then
    pass "install: with the same conduits it is replaced"
else
    fail "install: with the same conduits it stays: $(tail -n 3 "$WORK/messages" | tr '\n' ' ')"
fi
# As root after a user's build.
mkdir "$WORK/without"
for tool in cargo rustc; do
    printf '#!/bin/sh\necho "$0 $*" >>"%s/called"\nexit 1\n' "$WORK" >"$WORK/without/$tool"
    chmod 755 "$WORK/without/$tool"
done
attempt "install: under sudo" env PATH="$WORK/without:$PATH" SUDO_UID=1000 make -s -C "$ROOT" install \
    DESTDIR= PREFIX="$WORK/rooted" CONDUITS=smp UNIVERSAL=0 MODES="seq parsync par" DEBUG=0
good "install: under sudo without Cargo" "$(cat "$WORK/called" 2>/dev/null)"
# Legion installs into its build tree, where include and lib are links to what is installed.
mkdir "$WORK/tree"
ln -s "$BUILD/release/include" "$WORK/tree/include"
ln -s "$BUILD/release/lib" "$WORK/tree/lib"
if attempt "install: into a build tree" quiet_make install DESTDIR= PREFIX="$WORK/tree"; then
    for file in include/gasnet.h lib/libgasnet-smp-par.a; do
        if [ -f "$WORK/tree/$file" ] && [ ! "$WORK/tree/$file" -ef "$BUILD/release/$file" ] &&
            [ -f "$BUILD/release/$file" ]; then
            pass "install: $file is a copy in a build tree"
        else
            fail "install: $file is no copy in a build tree"
        fi
    done
fi
if quiet_make install DESTDIR= PREFIX="$ROOT" >/dev/null 2>&1; then
    fail "install: into the source tree"
else
    pass "install: not into the source tree"
fi
attempt "install: into a new folder" quiet_make install DESTDIR= PREFIX="$WORK/new/prefix"
attempt "install: uninstall it" quiet_make uninstall DESTDIR= PREFIX="$WORK/new/prefix"
attempt "install: the new folder is gone" [ ! -e "$WORK/new/prefix" ]
# Each program's help has one shape, an unknown option is an error, and bash completes options.
for name in gasnetrun gasnetrun_smp gasnet_info gasnet_trace gasnet_perf gasnet_selftest gasnet_replay; do
    help=$("$STAGE_RELEASE/bin/$name" --help 2>"$WORK/messages")
    status=$?
    odd=
    [ $status -eq 0 ] && [ ! -s "$WORK/messages" ] || odd="$odd exit status $status"
    printf '%s\n' "$help" | head -n 1 | grep -q "^usage: .*$name" || odd="$odd, first line"
    printf '%s\n' "$help" | grep -Eq '^  -h, --help  +print this text$' || odd="$odd, -h, --help"
    printf '%s\n' "$help" | tail -n 1 | grep -q '^The exit status is .*2 for invalid options' || odd="$odd, last line"
    "$STAGE_RELEASE/bin/$name" --no-such-option >"$WORK/out" 2>"$WORK/messages"
    status=$?
    [ $status -eq 2 ] && [ ! -s "$WORK/out" ] || odd="$odd, unknown option: $status"
    grep -q "^$name: .*no-such-option" "$WORK/messages" || odd="$odd, message"
    completed=$(bash -c '. "$1/share/bash-completion/completions/$2" && COMP_WORDS=("$1/bin/$2" --he) COMP_CWORD=1 &&
        _gasnet && echo "${COMPREPLY[@]}"' - "$STAGE_RELEASE" "$name")
    [ "$completed" = --help ] || odd="$odd, completed: $completed"
    grep -q "^#compdef.* $name\\b" "$STAGE_RELEASE/share/zsh/site-functions/_gasnet" || odd="$odd, zsh"
    good "install: $name --help" "$odd"
done
finish
