# AArch64: a cross build of everything, and programs over smp and udp on emulated processors
# (qemu-user). The tools are Debian's packages, unpacked into the build folder.
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/check/debian.sh"
oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml")
machine=aarch64-linux-gnu
tools=$UNPACKED/$machine
prefix=$BUILD/$machine/stage
cc="$machine-gcc --sysroot=$tools" cxx="$machine-g++ --sysroot=$tools"

# unpack_tools: the compiler with what it needs, the C library and the emulator.
unpack_tools() (
    [ ! -f "$tools/done" ] || exit 0
    packages=$(apt_tool apt-cache depends --recurse --important --no-conflicts --no-breaks --no-replaces \
        g++-$machine libc6-dev-arm64-cross | grep -E '^[a-z].*(aarch64|-cross)')
    # shellcheck disable=SC2086 # several words
    unpack $machine $packages qemu-user-static && touch "$tools/done"
)

build() {
    make --no-print-directory -j "$(nproc)" -C "$ROOT" install BUILD="$BUILD/$machine" CROSS="$machine" CC="$cc" \
        CXX="$cxx" DESTDIR= PREFIX="$prefix"
}

# of_machine FILE...: whether all are for it.
of_machine() {
    for _file; do
        readelf -h "$_file" | grep -q 'Machine: *AArch64' || { echo "$_file: $(readelf -h "$_file")"; return 1; }
    done
}

# emulator NAME OPTION...: a command that runs a program, $tools/NAME, and a library by which a
# program executes another one, $tools/NAME.so.
emulator() {
    _command=$tools/$1
    shift
    echo "#!/bin/sh
exec '$tools/usr/bin/qemu-aarch64-static' -L '$tools/usr/$machine' $* \"\$@\"" >"$_command"
    chmod +x "$_command"
    # shellcheck disable=SC2086 # CC has options
    $cc -Wall -Wextra -Werror -D_GNU_SOURCE -DEMULATOR="\"$_command\"" -shared -fPIC -O1 \
        -o "$_command.so" "$ROOT/scripts/check/emulated_exec.c"
}

# programs NAME LEFT_OUT FOLDER|OPTION...: by the emulator of this name, but for some.
programs() {
    _command=$tools/$1 _left_out=$2
    shift 2
    compat_tests "$@" --lines="$(basename -- "$_command"): " --library release="$prefix" \
        --configurations "release:smp:0 release:udp:1" \
        --few-ranks "1 2 3 4" --leave-out "$_left_out" --timeout-factor 20 --wrapper "$_command" \
        --flags="-Wl,--no-as-needed $_command.so" || failures=1
}

in_check_all arm64
[ "$(uname -m)" != aarch64 ] || { skip "arm64: this machine is one"; finish; }
if ! why=$({ unpack_rust "$oldest" && unpack_tools; } 2>&1); then
    skip "arm64: no tools from Debian's packages: $(printf '%s\n' "$why" | tail -n 1)"
    finish
fi
PATH=$tools/usr/bin:$PATH LD_LIBRARY_PATH=$(echo "$tools"/usr/lib/*-linux-gnu | tr ' ' :) RUSTC=$UNPACKED/rust/rustc
export PATH LD_LIBRARY_PATH RUSTC
attempt "arm64 cross build" build || finish
attempt "arm64 machine of libraries and programs" of_machine "$prefix"/lib/*.so.*.*.* "$prefix"/bin/gasnetrun_udp \
    "$prefix"/bin/gasnet_perf
attempt "arm64 emulator" emulator arm64
attempt "arm64 emulator with pages of 64 KiB" emulator arm64-large-pages -p 65536
programs arm64 "tools_misc=qemu_sets_no_limit_of_the_stack" smoke am rma atomic event coll gasnet1 vis tools \
    --modes "seq par"
maps=qemu_lists_not_all_memory_in_/proc/self/maps
programs arm64-large-pages "am_immediate_half=$maps segment_memory=$maps immediate_bounded=qemu_counts_pages_of_this_kernel \
    numa=its_library_is_for_this_machine" smoke am rma segment --modes par
finish
