# AArch64: a cross build of everything, and programs over smp and udp on emulated processors
# (emulated.sh).
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/check/emulated.sh"
machine aarch64-linux-gnu arm64 aarch64

in_check_all arm64
[ "$(uname -m)" != aarch64 ] || { skip "arm64: this machine is one"; finish; }
if ! why=$({ unpack_rust "$oldest" && unpack_tools; } 2>&1); then
    skip "arm64: no tools from Debian's packages: $(printf '%s\n' "$why" | tail -n 1)"
    finish
fi
use_tools
export RUSTC="$UNPACKED/rust/rustc"
attempt "arm64 cross build" build || finish
attempt "arm64 machine of libraries and programs" of_machine AArch64
attempt "arm64 emulator" emulator arm64
attempt "arm64 emulator with pages of 64 KiB" emulator arm64-large-pages -p 65536
programs arm64 "tools_misc=qemu_sets_no_limit_of_the_stack" smoke am rma atomic event coll gasnet1 vis tools \
    --modes "seq par"
maps=qemu_lists_not_all_memory_in_/proc/self/maps
programs arm64-large-pages "am_immediate_half=$maps segment_memory=$maps immediate_bounded=qemu_counts_pages_of_this_kernel \
    numa=its_library_is_for_this_machine" smoke am rma segment --modes par
finish
