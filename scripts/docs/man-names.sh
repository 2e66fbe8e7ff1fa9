#!/bin/sh
# man-names.sh all|links: "PAGE NAME" for every function and macro in the synopses of docs/man/man3
# (macros .Fo and .Fn of mdoc). Families are written as in the pages: [M] is the number of
# arguments, 0 to 16 and, in GASNet-EX, nothing, [T] a type of atomics, [A] an atomic type of the
# tools. links: without the names that are those of pages.
. "$(dirname -- "$0")/../common.sh"

awk -v what="$1" '
function family(name, mark, words,    at, n, i, list) {
    at = index(name, mark)
    if (at == 0) { emit(name); return }
    n = split(words, list, ",")
    for (i = 1; i <= n; i++) expand(substr(name, 1, at - 1) list[i] substr(name, at + 3))
}
function emit(name) { if (what == "all" || name != page) print page, name }
function expand(name) {
    if (index(name, "[M]"))
        family(name, "[M]", (name ~ /^gex/ ? "," : "") "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16")
    else if (index(name, "[T]")) family(name, "[T]", "I32,U32,I64,U64,FLT,DBL")
    else if (index(name, "[A]"))
        family(name, "[A]", "atomic,atomic32,atomic64,strongatomic,strongatomic32,strongatomic64")
    else emit(name)
}
FNR == 1 { page = FILENAME; sub(/.*\//, "", page); sub(/\.3$/, "", page); inside = 0 }
/^\.Sh / { inside = $2 == "SYNOPSIS" }
inside && /^\.F[on] / { name = $2; gsub(/"/, "", name); expand(name) }
' "$ROOT"/docs/man/man3/*.3 | sort -u -k 2,2
