# Sourced by steps that build for another machine by Debian's compiler, and run programs on its
# emulated processors (qemu-user). The tools are packages, unpacked into the build folder.
. "$ROOT/scripts/check/debian.sh"
# shellcheck disable=SC2034 # for the steps
oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml")

# machine NAME ARCHITECTURE PROCESSOR: the names of the compiler, of Debian and of qemu.
machine() {
    machine=$1 architecture=$2 processor=$3
    tools=$UNPACKED/$machine prefix=$BUILD/$machine/stage
    cc="$machine-gcc --sysroot=$tools" cxx="$machine-g++ --sysroot=$tools"
}

# unpack_tools: the compiler with what it needs, the C library and the emulator.
unpack_tools() (
    [ ! -f "$tools/done" ] || exit 0
    packages=$(apt_tool apt-cache depends --recurse --important --no-conflicts --no-breaks --no-replaces \
        "g++-$machine" "libc6-dev-$architecture-cross" | grep -E "^[a-z][^:]*(${machine%%-*}|-cross)[^:]*$" | sort -u)
    # shellcheck disable=SC2086 # several words
    unpack "$machine" $packages qemu-user-static && touch "$tools/done"
)

# use_tools: those of the machine; shows why not.
use_tools() {
    unpack_tools || return 1
    PATH=$tools/usr/bin:$PATH LD_LIBRARY_PATH=$(echo "$tools"/usr/lib/*-linux-gnu | tr ' ' :)
    export PATH LD_LIBRARY_PATH
}

# build VARIABLE=VALUE...
build() {
    make --no-print-directory -j "$(nproc)" -C "$ROOT" install BUILD="$BUILD/$machine" CROSS="$machine" CC="$cc" \
        CXX="$cxx" DESTDIR= PREFIX="$prefix" "$@"
}

# of_machine NAME: whether the libraries and two programs are for it, as readelf names it.
of_machine() {
    for _file in "$prefix"/lib/*.so.*.*.* "$prefix"/bin/gasnetrun_udp "$prefix"/bin/gasnet_perf; do
        readelf -h "$_file" | grep -q "Machine: *$1\$" || { echo "$_file: $(readelf -h "$_file")"; return 1; }
    done
}

# emulator NAME OPTION...: a command that runs a program, $tools/NAME, and a library by which a
# program executes another one, $tools/NAME.so.
emulator() {
    _command=$tools/$1
    shift
    echo "#!/bin/sh
exec '$tools/usr/bin/qemu-$processor-static' -L '$tools/usr/$machine' $* \"\$@\"" >"$_command"
    chmod +x "$_command"
    # shellcheck disable=SC2086 # CC has options
    $cc -Wall -Wextra -Werror -D_GNU_SOURCE -DEMULATOR="\"$_command\"" -shared -fPIC -O1 \
        -o "$_command.so" "$ROOT/scripts/check/emulated_exec.c"
}

# programs NAME LEFT_OUT FOLDER|OPTION...: by the emulator of this name, but for some.
# shellcheck disable=SC2034 # for the steps
programs() {
    _command=$tools/$1 _left_out=$2
    shift 2
    compat_tests "$@" --lines="$(basename -- "$_command"): " --library release="$prefix" \
        --configurations "release:smp:0 release:udp:1" \
        --few-ranks "1 2 3 4" --leave-out "$_left_out" --timeout-factor 20 --wrapper "$_command" \
        --flags="-Wl,--no-as-needed $_command.so" || failures=1
}
