# The types of all exports against the headers (prototypes.py), in the debug flavour, which exports
# the most, and bindings against the headers that they were made from.
. "$(dirname -- "$0")/lib.sh"
in_check_all prototypes
scratch
CARGO_TARGET_DIR=$BUILD/prototypes
export CARGO_TARGET_DIR

# expand CRATE: the crate after macro expansion, which only nightly compilers print.
expand() {
    RUSTC_BOOTSTRAP=1 timeout 600 cargo rustc --quiet --locked --manifest-path "$ROOT/Cargo.toml" \
        -p "$1" --lib --all-features --profile=check -- -Zunpretty=expanded >"$WORK/$1.rs"
}

if [ ! -x "$BUILD/cbindgen/bin/cbindgen" ]; then
    fail "prototypes: no $BUILD/cbindgen/bin/cbindgen. Run scripts/setup.sh all."
elif attempt "prototypes: expand gasnet" expand gasnet &&
    attempt "prototypes: expand gasnet-tools" expand gasnet-tools; then
    attempt "prototypes: exports and headers agree" timeout 300 python3 -B "$ROOT/scripts/check/prototypes.py" \
        "$STAGE_RELEASE/include" "$STAGE_RELEASE/include/smp-conduit" "$BUILD/cbindgen/bin/cbindgen" "$CC" \
        "$WORK/gasnet.rs" "$WORK/gasnet-tools.rs"
fi

# bindings SCRIPT FILE: declarations of a foreign library against its headers.
bindings() {
    timeout 300 "$ROOT/scripts/build/$1" "$BUILD/bindgen/bin/bindgen" >"$WORK/bindings.rs" &&
        diff -u "$ROOT/$2" "$WORK/bindings.rs"
}
# headers NAME VERSION WANTED SCRIPT FILE: checks bindings if the installed headers have the version
# wanted.
headers() {
    if [ "$2" != "$3" ]; then
        skip "prototypes: bindings of $1: the installed headers are of ${2:-no version}, not $3"
    elif [ ! -x "$BUILD/bindgen/bin/bindgen" ]; then
        fail "prototypes: no $BUILD/bindgen/bin/bindgen. Run scripts/setup.sh all."
    else
        attempt "prototypes: bindings of $1" bindings "$4" "$5"
    fi
}
printf '#include <rdma/fabric.h>\n%s.%s\n' FI_MAJOR_VERSION FI_MINOR_VERSION >"$WORK/version.c"
version=$("$CC" -E -P "$WORK/version.c" 2>/dev/null | sed -n '$s/ //gp')
headers libfabric "$version" 1.17 ofi-bindings.sh conduit-ofi/src/ffi/bindings.rs
version=$(pkg-config --modversion libibverbs 2>/dev/null | cut -d. -f1-3)
headers libibverbs "$version" 1.14.44 ibv-bindings.sh conduit-ibv/abi/src/bindings.rs
version=$(pkg-config --modversion ucx 2>/dev/null | cut -d. -f1-2)
headers UCX "$version" 1.13 ucx-bindings.sh conduit-ucx/src/ffi/bindings.rs
headers elan 1 1 elan-bindings.sh conduit-elan/abi/src/bindings.rs

# shim ELAN VERSION OPTION...: compiles the shim over libelan against what stands in for the headers
# of this version of libelan.
shim() {
    elan=$1 version=$2
    shift 2
    "$CC" -std=c99 -Wall -Wextra -Wpedantic -Werror "-DGASNET_ELAN=$elan" \
        "-DGASNET_ELAN_STANDIN_VERSION=QSNETLIBS_VERSION($version)" -I "$ROOT/conduit-elan/tests/libelan" \
        "$@" "$ROOT/conduit-elan/shim_libelan.c"
}
# The shim as an object of a shared library, which exports one function.
shim_object() {
    shim "$1" 1,8,14 -O2 -fPIC -DGASNET_ELAN_RMS -DGASNET_ELAN_SLURM -c -o "$WORK/shim.o" &&
        nm -g --defined-only "$WORK/shim.o" >"$WORK/shim.names" &&
        [ "$(sed 's/.* //' "$WORK/shim.names")" = gasnet_elan_shim ]
}
shim_refuses() { ! shim 4 "$1" -fsyntax-only >/dev/null 2>&1; }
for elan in 3 4; do
    for version in 1,4,8 1,4,10 1,8,14; do
        attempt "prototypes: shim_libelan.c: Elan$elan, libelan $version" shim $elan $version -fsyntax-only
    done
    for option in RMS SLURM WITHOUT_OPTIONAL 3_WINDOW_BASE=0x60000000; do
        case $option in 3_*) macro=GASNET_ELAN$option ;; *) macro=GASNET_ELAN_$option ;; esac
        attempt "prototypes: shim_libelan.c: Elan$elan, $macro" shim $elan 1,8,14 -fsyntax-only "-D$macro"
    done
    attempt "prototypes: shim_libelan.c: Elan$elan, object" shim_object $elan
done
attempt "prototypes: shim_libelan.c refuses libelan 1.4.7" shim_refuses 1,4,7
# shim.h without any header of libelan.
contract() {
    "$@" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I "$ROOT/conduit-elan" \
        "$ROOT/conduit-elan/tests/libelan/contract.c"
}
attempt "prototypes: shim.h in C" contract "$CC" -std=c99
attempt "prototypes: shim.h in C++" contract "$CXX" -x c++ -std=c++11
finish
