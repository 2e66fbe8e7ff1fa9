#!/bin/sh
# core.sh conduits|tools|launcher: compiles the Rust part into $CORE/core/, once for all thread
# modes. The libraries of all CONDUITS, and with UNIVERSAL=1 the universal one (any), are made by
# one call of Cargo, side by side: each is linked by one thread for half a minute.
#
# A conduit and the tools become a static library (only that crate type: with several, fat LTO
# silently does not apply).
. "$(dirname -- "$0")/../common.sh"

what=$1
cd "$ROOT"
any=
[ "${UNIVERSAL:-}" != 1 ] || any=any
# shellcheck disable=SC2086 # words
case $what in
launcher) results='gasnetrun gasnet_info gasnet_trace' ;;
tools) results=tools.a ;;
*) results=$(printf '%s.a ' $CONDUITS $any) ;;
esac

# `sudo make install` has another path and home: without Cargo, or with one that lacks the crates
# and leaves files of root behind. It installs what the user has built (INSTALLING: as a part of
# `make install`).
missing=
for result in $results; do [ -f "$CORE/core/$result" ] || missing="$missing $result"; done
have_cargo=1
command -v cargo >/dev/null || have_cargo=
if [ -n "${INSTALLING:-}" ] && [ -z "$missing" ] && { [ -n "${SUDO_UID:-}" ] || [ -z "$have_cargo" ]; }; then
    echo "  core of $what: as built before; Cargo is not run"
    exit 0
fi
if [ -z "$have_cargo" ]; then
    echo "cargo is not on the path. Run make as the user who has Rust, with the same variables; then make install, as" \
        "root, needs no Cargo${missing:+ (missing in $CORE/core:$missing)}" >&2
    exit 1
fi

# The objects must not contain the path of the sources or of the user's home.
cargo_home=${CARGO_HOME:-${HOME:-}/.cargo}
RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$BUILD=/build"
RUSTFLAGS="$RUSTFLAGS --remap-path-prefix=$ROOT=/gasnet"
# The C parts are linked into one object with the rest: no bytecode.
CFLAGS="${CFLAGS:-} -fno-lto -ffile-prefix-map=$BUILD=/build -ffile-prefix-map=$ROOT=/gasnet"
export RUSTFLAGS CFLAGS

# For this machine, or for another one. A user's own settings for Cargo do not move the results.
triple=${CARGO_BUILD_TARGET:-}
if [ -n "${CROSS:-}" ]; then
    [ -n "$triple" ] || triple=$("$ROOT/scripts/build/target.sh" "$CROSS")
    # Cargo takes the linker without options. Build scripts are linked by this machine's.
    linker=CARGO_TARGET_$(upper "$triple")_LINKER
    eval ": \"\${$linker:=${CC%% *}}\""
    for option in ${CC#"${CC%% *}"}; do RUSTFLAGS="$RUSTFLAGS -C link-arg=$option"; done
    export "${linker?}" AR
fi
[ -n "$triple" ] || triple=$("${RUSTC:-rustc}" -vV | sed -n 's/^host: //p')
mkdir -p "$CORE/core"
if [ "$what" = launcher ]; then
    # The programs are the same in both flavours.
    target=$BUILD/programs
    cargo build --quiet --locked --profile program --target-dir "$target" --target "$triple" -p gasnet-launcher --bins \
        --features "$("$ROOT/scripts/build/conduits.sh" --features)"
    for program in gasnetrun gasnet_info gasnet_trace; do
        cp "$target/$triple/program/$program" "$CORE/core/$program.new"
        [ -n "${KEEP_SYMBOLS:-}" ] || "$STRIP" "$CORE/core/$program.new"
        replace "$CORE/core/$program" <"$CORE/core/$program.new"
        rm -f "$CORE/core/$program.new"
        chmod 755 "$CORE/core/$program"
    done
    exit 0
fi

# Debugging information takes time to link, and is stripped in the end (package-lib.sh).
[ -n "${KEEP_SYMBOLS:-}" ] || export CARGO_PROFILE_RELEASE_DEBUG="${CARGO_PROFILE_RELEASE_DEBUG:-0}"
target=$CORE/cargo made=$CORE/cargo/$triple/release
set -- --quiet --locked --release --target-dir "$target" --target "$triple"
if [ "$FLAVOUR" = debug ]; then
    CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS CARGO_PROFILE_RELEASE_LTO CARGO_PROFILE_RELEASE_CODEGEN_UNITS
    set -- "$@" --features debug-checks
fi
if [ "$what" = tools ]; then
    cargo rustc "$@" -p gasnet-tools --lib --crate-type staticlib
    replace "$CORE/core/tools.a" <"$made/libgasnet_tools.a"
    exit 0
fi
for conduit in $CONDUITS; do set -- "$@" -p gasnet-libraries --example "$conduit"; done
if [ -n "$any" ]; then
    set -- "$@" -p gasnet-conduit-any --example any
    for conduit in $CONDUITS; do set -- "$@" --features "gasnet-conduit-any/gasnet-conduit-$conduit"; done
fi
cargo build "$@"
for library in $CONDUITS $any; do
    replace "$CORE/core/$library.a" <"$made/examples/lib$library.a"
done
