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

# The header of a conduit that -DGASNET_CONDUIT_... names. All conduits of this release are listed,
# also those that this installation lacks: another one may add them to the same prefix.
conduit_names() {
    all=$("$ROOT/scripts/build/conduits.sh" --all)
    foreign=$("$ROOT/scripts/build/conduits.sh" --foreign)
    ours=$("$ROOT/scripts/build/conduits.sh")
    echo "// gasnetex_conduits.h: the conduit that -DGASNET_CONDUIT_... names. Included by gasnetex_build.h only."
    echo "#ifndef GASNETI_CONDUIT_FOUND"
    word=if
    for name in $all; do
        printf '#%s defined(GASNET_CONDUIT_%s)\n#include "%s-conduit/gasnet_core_fwd.h"\n' \
            "$word" "$(upper "$name")" "$name"
        word=elif
    done
    for name in $foreign; do
        printf '#elif defined(GASNET_CONDUIT_%s)\n#error "this release has no conduit %s; it has %s"\n' \
            "$(upper "$name")" "$name" "$ours"
    done
    printf '#endif\n#endif\n\n#if (0'
    for name in $all $foreign; do printf ' + \\\n     defined(GASNET_CONDUIT_%s)' "$(upper "$name")"; done
    printf ') > 1\n#define GASNETI_CONDUITS_CONFLICT 1\n#endif\n'
}
conduit_names | replace "$B/include/gasnetex_conduits.h"

for conduit; do
    for template in "$ROOT"/include/conduit/*.in; do
        [ ! -f "$template" ] || expand "$template" "$conduit" "" "" |
            replace "$B/include/$conduit-conduit/$(basename -- "$template" .in)"
    done
    # A conduit may have header files of its own, which take precedence.
    for header in "$ROOT/conduit-$conduit"/include/*.h; do
        # shellcheck disable=SC2094 # replace writes below $B
        [ ! -f "$header" ] || replace "$B/include/$conduit-conduit/$(basename -- "$header")" <"$header"
    done
done
if grep -rn '@[A-Z_]*@' "$B/include" >&2; then
    echo "headers.sh: unknown @NAME@ in a template" >&2
    exit 1
fi
