# Sourced by steps that need Debian packages without installing them: they are unpacked into
# folders of $UNPACKED, also those of OTHERS, with lists of apt's own there.
UNPACKED=$BUILD/unpacked
OTHERS="arm64 ppc64el"

# apt_tool apt-get|apt-cache OPTION...
apt_tool() {
    _apt=$1
    shift
    "$_apt" -c "$UNPACKED/apt/conf" "$@"
}

apt_update() {
    command -v apt-get >/dev/null || { echo "apt is not here"; return 1; }
    rm -rf "$UNPACKED/apt" && mkdir -p "$UNPACKED/apt/lists/partial" "$UNPACKED/apt/archives/partial"
    # shellcheck disable=SC2086 # several words
    cat >"$UNPACKED/apt/conf" <<CONF
APT::Architectures { $(printf '"%s"; ' "$(dpkg --print-architecture)" $OTHERS)};
APT::Sandbox::User "";
Acquire::Retries "3";
Dir::State "$UNPACKED/apt";
Dir::State::status "/var/lib/dpkg/status";
Dir::Cache "$UNPACKED/apt";
CONF
    apt_tool apt-get -q update
}

# unpack FOLDER PACKAGE[:ARCHITECTURE][=VERSION]...
unpack() (
    mkdir -p "$UNPACKED/$1/packages" && cd "$UNPACKED/$1/packages" && shift && apt_tool apt-get download "$@" || exit 1
    for package in *.deb; do dpkg -x "$package" .. && rm "$package" || exit 1; done
)

# unpack_rust VERSION: Rust of this version, with the standard libraries for OTHERS, too, the LLVM
# that it names, and a script that runs it, $UNPACKED/rust/rustc.
unpack_rust() (
    folder=$UNPACKED/rust contents="$1 for $OTHERS"
    [ "$(cat "$folder/contents" 2>/dev/null)" != "$contents" ] || exit 0
    apt_update || exit 1
    version=$(apt_tool apt-cache madison rustc-web | sed -n "s/^ *rustc-web | \($1\.[^ ]*\) .*/\1/p" | head -n 1)
    [ -n "$version" ] || { echo "apt has no rustc-web $1"; exit 1; }
    llvm=$(apt_tool apt-cache show "libstd-rust-web-$1=$version" |
        sed -n 's/^Depends:.*\(libllvm[0-9]*\).*/\1/p' | head -n 1)
    rm -rf "$folder"
    # shellcheck disable=SC2046,SC2086 # several words
    unpack rust "rustc-web=$version" "libstd-rust-web-$1=$version" "libstd-rust-web-dev=$version" \
        $(printf "libstd-rust-web-dev:%s=$version " $OTHERS) ${llvm:+"$llvm"} || exit 1
    libraries=$(dirname -- "$(find "$folder" -name 'librustc_driver-*.so' | head -n 1)")
    cat >"$folder/rustc.new" <<SCRIPT
#!/bin/sh
LD_LIBRARY_PATH='$libraries':\$LD_LIBRARY_PATH exec '$folder/usr/bin/rustc' "\$@"
SCRIPT
    chmod +x "$folder/rustc.new" && "$folder/rustc.new" --version && mv "$folder/rustc.new" "$folder/rustc" &&
        echo "$contents" >"$folder/contents"
)
