# POWER and RISC-V: cross builds of smp and udp, and the smoke test on emulated processors
# (emulated.sh). For RISC-V Debian 12 has a compiler and no standard library of Rust.
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/check/emulated.sh"
in_check_all machines
rust=${RUSTC:-rustc}

# smoke ELF_NAME RUSTC
smoke() (
    export RUSTC="$2" CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    use_tools
    attempt "machines: $processor cross build" build CONDUITS="smp udp" MODES="seq par" || finish
    attempt "machines: $processor machine of libraries and programs" of_machine "$1"
    attempt "machines: $processor emulator" emulator "$processor"
    programs "$processor" "" smoke --modes "seq par" --part ""
    finish
)

machine powerpc64le-linux-gnu ppc64el ppc64le
if why=$({ unpack_rust "$oldest" && unpack_tools; } 2>&1); then
    smoke PowerPC64 "$UNPACKED/rust/rustc" || failures=1
else
    skip "machines: $processor: no tools from Debian's packages: $(printf '%s\n' "$why" | tail -n 1)"
fi

machine riscv64-linux-gnu riscv64 riscv64
if [ ! -d "$("$rust" --print target-libdir --target riscv64gc-unknown-linux-gnu)" ]; then
    skip "machines: $processor: no Rust (rustup target add riscv64gc-unknown-linux-gnu)"
elif why=$({ { [ -d "$UNPACKED/apt" ] || apt_update; } && unpack_tools; } 2>&1); then
    smoke RISC-V "$rust" || failures=1
else
    skip "machines: $processor: no tools from Debian's packages: $(printf '%s\n' "$why" | tail -n 1)"
fi
finish
