# The oldest Rust that Cargo.toml names compiles everything. `make check-all` takes it from rustup
# where that has it, else from Debian's packages (rustc-web), which it unpacks into the build
# folder.
. "$(dirname -- "$0")/lib.sh"
oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml")
folder=$BUILD/oldest

# unpack: Debian's compiler of this version, with the LLVM that it names, and a script that runs it.
unpack() (
    version=$(apt-cache madison rustc-web | sed -n "s/^ *rustc-web | \($oldest\.[^ ]*\) .*/\1/p" | head -n 1)
    [ -n "$version" ] || { echo "apt has no rustc-web $oldest"; exit 1; }
    llvm=$(apt-cache show "libstd-rust-web-$oldest=$version" |
        sed -n 's/^Depends:.*\(libllvm[0-9]*\).*/\1/p' | head -n 1)
    rm -rf "$folder/debian" && mkdir -p "$folder/debian" && cd "$folder/debian" || exit 1
    apt-get download "rustc-web=$version" "libstd-rust-web-$oldest=$version" "libstd-rust-web-dev=$version" \
        ${llvm:+"$llvm"} || exit 1
    for package in *.deb; do dpkg -x "$package" . && rm "$package" || exit 1; done
    libraries=$(dirname -- "$(find "$PWD" -name 'librustc_driver-*.so' | head -n 1)")
    cat >rustc.new <<EOF
#!/bin/sh
LD_LIBRARY_PATH='$libraries' exec '$PWD/usr/bin/rustc' "\$@"
EOF
    chmod +x rustc.new && ./rustc.new --version && mv rustc.new rustc
)

compile() (
    cd "$ROOT" && CARGO_TARGET_DIR=$folder/target cargo check --quiet --locked --workspace "$@"
)

in_check_all oldest
if cargo "+$oldest.0" --version >/dev/null 2>&1; then
    export RUSTUP_TOOLCHAIN="$oldest.0"
elif [ -x "$folder/debian/rustc" ] || why=$(unpack 2>&1); then
    export RUSTC="$folder/debian/rustc"
else
    skip "oldest: neither rustup nor Debian's packages have Rust $oldest here: $(printf '%s\n' "$why" | tail -n 1)"
    finish
fi
attempt "Rust $oldest" compile
attempt "Rust $oldest, all features" compile --all-features
finish
