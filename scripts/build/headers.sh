#!/bin/sh
# headers.sh CONDUIT...: the include tree as it will be installed, in $B/include.
. "$(dirname -- "$0")/../common.sh"

for header in "$ROOT"/include/*.h; do
    # shellcheck disable=SC2094 # replace writes below $B
    [ ! -f "$header" ] || replace "$B/include/$(basename -- "$header")" <"$header"
done
for template in "$ROOT"/include/*.h.in; do
    [ ! -f "$template" ] || expand "$template" "" "" "" | replace "$B/include/$(basename -- "$template" .in)"
done
for conduit; do
    for template in "$ROOT"/include/conduit/*.in; do
        [ ! -f "$template" ] || expand "$template" "$conduit" "" "" |
            replace "$B/include/$conduit-conduit/$(basename -- "$template" .in)"
    done
    # A conduit may have header files of its own, which then win.
    for header in "$ROOT/conduit-$conduit"/include/*.h; do
        # shellcheck disable=SC2094 # replace writes below $B
        [ ! -f "$header" ] || replace "$B/include/$conduit-conduit/$(basename -- "$header")" <"$header"
    done
done
if grep -rn '@[A-Z_]*@' "$B/include" >&2; then
    echo "headers.sh: unknown @NAME@ in a template" >&2
    exit 1
fi
