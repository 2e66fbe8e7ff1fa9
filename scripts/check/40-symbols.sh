# Exports, needs and contents of the libraries. The modes of a conduit have the same code: a quick
# check looks at PAR, and at all of smp.
. "$(dirname -- "$0")/lib.sh"
scratch

attempt "symbols: lists and headers agree" sh "$ROOT/libraries/exports/check-headers.sh"

# Libraries that any Linux machine with a C compiler has.
allowed_needed='^(libc|libm|libpthread|libdl|librt|libgcc_s|ld-linux-[a-z0-9-]*)\.so\.[0-9]+$'
# Prefixes of the names of this interface.
ours='^_?(gasnet|gasnetx|gasnett|gasneti|gasnetti|gasnetc|gasnete|gex|_gasneti)_'

# Strings that would reveal the place, time or user of the build.
traces() {
    { echo "$ROOT"; echo "$BUILD"; echo "$HOME/"; date +%Y-%m-%d; date '+%b %e %Y'; uname -n; } | sort -u |
        # A short host name also occurs by chance.
        awk 'length($0) > 5 && $0 != "localhost"'
}

check_library() { # FLAVOUR STAGE CONDUIT|any|tools MODE
    case $3 in tools) name=gasnet_tools-$4 ;; any) name=gasnet ;; *) name=gasnet-$3-$4 ;; esac
    label="$name $1"
    archive=$2/lib/lib$name.a
    so=$2/lib/lib$name.so.0
    { FLAVOUR=$1 "$ROOT/scripts/build/exports.sh" "$3"; cat "$BUILD/$1/obj/$name/marker.names"; } |
        sort -u >"$WORK/wanted"

    nm -g --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort >"$WORK/archive"
    if diff "$WORK/wanted" \
        "$WORK/archive" >"$WORK/diff"; then pass "symbols $label archive: $(wc -l <"$WORK/wanted") names"; else
        fail "symbols $label archive differs from the export lists:" \
            "$(grep -c '^<' "$WORK/diff") missing, $(grep -c '^>' "$WORK/diff") foreign"
        grep '^[<>]' "$WORK/diff" | head -n 40 | sed 's/^/    | /'
    fi
    if grep -vE "$ours" "$WORK/archive" >"$WORK/foreign"; then
        fail "symbols $label: names outside the interface's prefixes: $(head -n 10 "$WORK/foreign" | tr '\n' ' ')"
    fi
    if [ "$(ar t "$archive")" != "$name.o" ]; then
        fail "symbols $label archive: members are $(ar t "$archive" | tr '\n' ' ')"
    fi
    # The universal library has the code of all networks.
    if [ "$1-$4" = release-par ] && { [ "$SCOPE" = all ] || [ "$3" = any ]; } && [ "$(uname -m)" = x86_64 ]; then
        if python3 -B "$ROOT/scripts/check/frames.py" "$archive" >"$WORK/frames"; then
            pass "symbols $label archive: stack frames"
        else
            fail "symbols $label archive: large stack frames"
            sed 's/^/    | /' "$WORK/frames"
        fi
    fi
    if nm -u "$archive" | grep -E ' U _?(gasnet|gex)' >"$WORK/undefined"; then
        fail "symbols $label archive needs $(awk '{ print $2 }' "$WORK/undefined" | head -n 10 | tr '\n' ' ')"
    fi

    node=$(printf %s "$name" | tr 'a-z-' 'A-Z_')_0
    nm -D --defined-only "$so" | awk '{ print $3 }' | grep -v "^$node\$" | sort >"$WORK/shared"
    sed "s/\$/@@$node/" "$WORK/wanted" | sort >"$WORK/versioned"
    if diff "$WORK/versioned" "$WORK/shared" >"$WORK/diff"; then pass "symbols $label shared: versioned $node"; else
        fail "symbols $label shared differs from the export lists"
        grep '^[<>]' "$WORK/diff" | head -n 20 | sed 's/^/    | /'
    fi
    readelf -dW "$so" >"$WORK/dynamic"
    grep -q "SONAME.*\[lib$name\.so\.0\]" "$WORK/dynamic" || fail "symbols $label shared: soname"
    grep -q NODELETE "$WORK/dynamic" || fail "symbols $label shared: not marked nodelete"
    ! grep -qE 'TEXTREL|STATIC_TLS|RPATH|RUNPATH' "$WORK/dynamic" ||
        fail "symbols $label shared: TEXTREL, STATIC_TLS, RPATH or RUNPATH"
    sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' "$WORK/dynamic" | grep -vE "$allowed_needed" >"$WORK/needed" \
        && fail "symbols $label shared needs $(tr '\n' ' ' <"$WORK/needed")"

    for file in "$archive" "$so"; do
        traces | while IFS= read -r trace; do
            if grep -aqF -- "$trace" "$file"; then echo "$trace"; fi
        done >"$WORK/traces"
        if [ -s "$WORK/traces" ]; then fail "symbols ${file##*/} $1 contains $(tr '\n' ' ' <"$WORK/traces")"; fi
    done

    # The archive's object is position-independent: some packagers make a shared library of it.
    mkdir -p "$WORK/x"
    if ! (cd "$WORK/x" && ar x "$archive" &&
        "$CC" -shared -Wl,-z,text -Wl,-z,defs -o again.so ./*.o -lpthread -ldl -lm) 2>"$WORK/messages"; then
        fail "symbols $label: the extracted object does not link as a shared library: $(head -n 1 "$WORK/messages")"
    fi
    rm -rf "$WORK/x"
}

for flavour in release debug; do
    stage=$STAGE_RELEASE
    [ "$flavour" = release ] || stage=$STAGE_DEBUG
    for conduit in $(conduits_of "$flavour"); do
        modes=par
        if [ "$SCOPE" = all ] || [ "$conduit" = smp ]; then modes="seq parsync par"; fi
        for mode in $modes; do check_library "$flavour" "$stage" "$conduit" "$mode"; done
    done
    for mode in seq par; do check_library "$flavour" "$stage" tools "$mode"; done
    check_library "$flavour" "$stage" any par
    for program in bin/gasnetrun_smp bin/gasnet_info bin/gasnet_trace; do
        traces | while IFS= read -r trace; do
            if grep -aqF -- "$trace" "$stage/$program"; then echo "$trace"; fi
        done >"$WORK/traces"
        if [ -s "$WORK/traces" ]; then
            fail "symbols $program $flavour contains $(tr '\n' ' ' <"$WORK/traces")"
        else
            pass "symbols $program $flavour"
        fi
    done
done
finish
