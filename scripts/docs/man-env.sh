#!/bin/sh
# man-env.sh docs/env.md: that page as the manual page gasnet_env(7), on standard output.
set -eu
LC_ALL=C.UTF-8
export LC_ALL

awk '
# Text of Markdown as text of mdoc: no emphasis, nothing that looks like a macro at the start of a
# line.
function plain(text) {
    gsub(/\\\*/, "*", text)
    gsub(/\\\|/, "|", text)
    gsub(/\\/, "\\e", text)
    gsub(/`/, "", text)
    gsub(/…/, "...", text)
    gsub(/×/, "times", text)
    gsub(/^[ \t]+|[ \t]+$/, "", text)
    sub(/^[.\047]/, "\\\\\\&&", text)
    return text
}
# Breaks lines after full stops, as mdoc wants it.
function broken(text) { text = plain(text); gsub(/\. /, ".\n", text); print text }
BEGIN {
    print ".\\\" Written by scripts/docs/man-env.sh from docs/env.md, which gasnet_info --env-markdown writes."
    print ".Dd November 21, 2026\n.Dt GASNET_ENV 7\n.Os libgasnet"
    print ".Sh NAME\n.Nm gasnet_env\n.Nd environment variables of libgasnet\n.Sh DESCRIPTION"
    listing = 0
}
NR == 1 || /^This page is generated/ || /^\| *variable/ || /^\|[-| ]+$/ { next }
/^## / { if (listing) print ".El"; listing = 0; print ".Ss " plain(substr($0, 4)); next }
/^\|/ {
    row = $0
    gsub(/\\\|/, "\001", row)
    n = split(row, cell, "|")
    for (i = 1; i <= n; i++) gsub(/\001/, "|", cell[i])
    if (!listing) print ".Bl -tag -width Ds"
    listing = 1
    name = cell[2]
    own = index(name, "★")
    gsub(/[`★ ]/, "", name)
    print ".It Ev " name
    broken(cell[3])
    print "Accepts " plain(cell[4]) "; default " plain(cell[5]) "."
    print "Read by: " plain(cell[6]) "; " plain(cell[7]) (own ? "; only this implementation has it" : "") "."
    next
}
/^$/ { blank = 1; next }
{
    if (listing) print ".El"
    listing = 0
    if (blank && seen) print ".Pp"
    blank = 0
    seen = 1
    text = $0
    sub(/ ★ marks.*/, "", text)
    gsub(/\*/, "", text)
    broken(text)
}
END {
    if (listing) print ".El"
    print ".Sh SEE ALSO\n.Xr gasnet_info 1 ,\n.Xr gasnet 7"
}' "$1"
