# The universal library (-lgasnet): built once, the conduit chosen at start, every thread mode.
. "$(dirname -- "$0")/lib.sh"
scratch
SOURCE=$ROOT/scripts/check/universal.c
export GASNET_PSHM_NODES=3
unset GASNET_CONDUIT GASNET_SUPERNODE_MAXSIZE

# says NAME PATTERN COMMAND...: the command succeeds and prints a line that matches.
says() {
    _name=$1 _pattern=$2
    shift 2
    _out=$(timeout 60 "$@" 2>&1)
    _status=$?
    if [ $_status -eq 0 ] && printf '%s\n' "$_out" | grep -qE "$_pattern"; then pass "universal: $_name"; else
        fail "universal: $_name: exit status $_status, no line matches: $_pattern"
        printf '%s\n' "$_out" | tail -n 5 | sed 's/^/    | /'
    fi
}
# refuses NAME PATTERN COMMAND...: the command fails with such a line.
refuses() {
    _name=$1 _pattern=$2
    shift 2
    _out=$(timeout 60 "$@" 2>&1)
    _status=$?
    if [ $_status -ne 0 ] && [ $_status -lt 124 ] && printf '%s\n' "$_out" |
        grep -qE "$_pattern"; then pass "universal: $_name"; else
        fail "universal: $_name: exit status $_status, no line matches: $_pattern"
        printf '%s\n' "$_out" | tail -n 5 | sed 's/^/    | /'
    fi
}
pc() { PKG_CONFIG_PATH=$1/lib/pkgconfig; export PKG_CONFIG_PATH; shift; pkg-config "$@"; }

for label in release debug; do
    stage=$STAGE_RELEASE
    [ $label = release ] || stage=$STAGE_DEBUG
    for mode in SEQ PARSYNC PAR; do
        # shellcheck disable=SC2046 # flags are words
        attempt "universal: $label $mode compiles" "$CC" -Wall -Wextra -Werror -DGASNET_$mode "$SOURCE" \
            -o "$WORK/$label-$mode" $(pc "$stage" --cflags --libs gasnet)
        says "$label $mode" "^headers ANY, conduit smp, mode $mode, 3 ranks" "$WORK/$label-$mode"
    done
    # shellcheck disable=SC2046
    attempt "universal: $label shared compiles" "$CC" "$SOURCE" -o "$WORK/$label-shared" \
        $(pc "$stage" --cflags --libs gasnet-shared)
    says "$label shared, PAR is the default" "conduit smp, mode PAR" "$WORK/$label-shared"
done
cp "$SOURCE" "$WORK/u.cc"
# shellcheck disable=SC2046
attempt "universal: C++ compiles" "$CXX" -Wall -Wextra -Werror "$WORK/u.cc" -o "$WORK/cxx" \
    $(pc "$STAGE_RELEASE" --cflags --libs gasnet)
says "C++" "conduit smp, mode PAR" "$WORK/cxx"
# shellcheck disable=SC2046
attempt "universal: -static compiles" "$CC" -static "$SOURCE" -o "$WORK/static" \
    $(pc "$STAGE_RELEASE" --cflags --libs gasnet) 2>/dev/null
says "-static" "conduit smp" "$WORK/static"
says "from Python" "^hello from 3 ranks over smp" python3 "$ROOT/scripts/check/dlopen.py" \
    "$STAGE_RELEASE/lib/libgasnet.so.0"
says "from Python, a network" "^hello from 3 ranks over sock" env GASNET_CONDUIT=sock python3 \
    "$ROOT/scripts/check/dlopen.py" "$STAGE_RELEASE/lib/libgasnet.so.0"
printf 'include %s/include/gasnet.mak\nall:\n\t$(GASNET_LD) $(GASNET_CPPFLAGS) $(GASNET_CFLAGS) $(GASNET_LDFLAGS) %s $(GASNET_LIBS) -o %s\n' \
    "$STAGE_RELEASE" "$SOURCE" "$WORK/mak" >"$WORK/makefile"
attempt "universal: fragment compiles" make -s -f "$WORK/makefile" MANUAL_DEFINES=-DGASNET_SEQ
says "fragment" "conduit smp, mode SEQ" "$WORK/mak"
mkdir "$WORK/cmake"
cat >"$WORK/cmake/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.13)
project(universal C)
find_package(GASNet REQUIRED COMPONENTS gasnet)
add_executable(static $SOURCE)
target_link_libraries(static GASNet::gasnet)
add_executable(shared $SOURCE)
target_link_libraries(shared GASNet::gasnet-shared)
CMAKE
if command -v cmake >/dev/null; then
    attempt "universal: CMake configures" cmake -S "$WORK/cmake" -B "$WORK/cmake/b" -DCMAKE_PREFIX_PATH="$STAGE_RELEASE"
    attempt "universal: CMake builds" cmake --build "$WORK/cmake/b"
    for kind in static shared; do says "CMake $kind" "conduit smp" "$WORK/cmake/b/$kind"; done
else
    skip "universal: CMake is not installed"
fi

program=$WORK/release-PAR
for size in 1 2; do
    GASNET_SUPERNODE_MAXSIZE=$size
    export GASNET_SUPERNODE_MAXSIZE
    says "neighbourhoods of $size: a network" "conduit udp" "$program"
done
attempt "universal: an emulated HCA" env CARGO_TARGET_DIR="$BUILD/emulators/target" \
    "$ROOT/emulators/verbs/build.sh" "$BUILD/emulators/verbs"
says "with an HCA: ibv" "conduit ibv" env EMULATORS="$BUILD/emulators" "$ROOT/scripts/with-emulator" verbs \
    --faults yield=10 "$program"
says "the reason is printed" "conduit smp: .*GASNET_SUPERNODE_MAXSIZE=2" env GASNET_VERBOSEENV=1 "$program"
says "smp has one neighbourhood" "GASNET_SUPERNODE_MAXSIZE=2 has no effect: the smp conduit has no network" env \
    GASNET_CONDUIT=' smp' "$program"
unset GASNET_SUPERNODE_MAXSIZE
says "upper and lower case" "conduit sock" env GASNET_CONDUIT=Sock "$program"
says "selected, explained" "^GASNet: conduit sock: used \(GASNET_CONDUIT\)" env GASNET_CONDUIT=sock \
    GASNET_VERBOSEENV=1 "$program"
says "auto, explained" "^GASNet: conduit sock: usable" env GASNET_CONDUIT=auto GASNET_VERBOSEENV=1 "$program"
all=$("$ROOT/scripts/build/conduits.sh" --all | sed 's/ /, /g')
refuses "a conduit that it does not hold" "GASNET_CONDUIT=none: this library holds $all" env GASNET_CONDUIT=none \
    "$program"
refuses "faults in a release library" "GASNET_FAULTS needs the debug flavour" env GASNET_FAULTS=busy=0.1 "$program"
refuses "more ranks than the conduit carries" "at most 256" env GASNET_CONDUIT=sock GASNET_PSHM_NODES=257 "$program"
says "the launcher" "conduit smp, mode PAR, 2 ranks" "$STAGE_RELEASE/bin/gasnetrun" -n 2 "$program"
says "the launcher's option" "conduit sock" "$STAGE_RELEASE/bin/gasnetrun" -n 2 --conduit=sock "$program"
says "the launcher's name" "conduit sock" "$STAGE_RELEASE/bin/gasnetrun_sock" -n 2 "$program"
says "its identity" 'GASNetConduitName: ANY ' "$STAGE_RELEASE/bin/ident" "$program"

# A library of one conduit cannot select another one, and prints a message. Headers and library of
# two kinds do not link.
# shellcheck disable=SC2046
attempt "universal: smp alone compiles" "$CC" "$ROOT/examples/client/hello.c" -o "$WORK/smp" \
    $(pc "$STAGE_RELEASE" --cflags --libs gasnet-smp-par)
says "smp alone" "WARNING.*GASNET_CONDUIT=sock has no effect.*holds smp only" env GASNET_CONDUIT=sock "$WORK/smp"
refuses "smp by the launcher of another conduit" "the launcher is that of conduit udp.* holds smp" \
    "$STAGE_RELEASE/bin/gasnetrun_udp" -n 2 -spawner=fork "$WORK/smp"
says "smp by it, with the program's own conduit" "^hello from 2 ranks" \
    "$STAGE_RELEASE/bin/gasnetrun_udp" -n 2 -spawner=fork --conduit=auto "$WORK/smp"
refuses "processes of a launcher without PMI" "mpiexec of PALS has started 4 processes .PMI_SIZE=4." \
    env -u GASNET_PSHM_NODES PALS_RANKID=0 PMI_RANK=0 PMI_SIZE=4 "$WORK/smp"
# shellcheck disable=SC2046
refuses "its headers with the library of a conduit" "conduit_any__mode_any" "$CC" "$SOURCE" -o "$WORK/wrong" \
    $(pc "$STAGE_RELEASE" --cflags gasnet) \
    $(pc "$STAGE_RELEASE" --libs gasnet-smp-par)
# shellcheck disable=SC2046
refuses "its library with the headers of a conduit" "conduit_smp__mode_par" "$CC" "$ROOT/examples/client/hello.c" \
    -o "$WORK/wrong" \
    $(pc "$STAGE_RELEASE" --cflags gasnet-smp-par) $(pc "$STAGE_RELEASE" --libs gasnet)
finish
