#!/bin/sh
# ident FILE...: prints the identity strings ($Name: text $) that libgasnet's headers put into every
# program.
if [ $# -eq 0 ] || [ "$1" = --help ] || [ "$1" = -h ]; then
    echo "usage: ident FILE..." >&2
    [ $# -gt 0 ]
    exit
fi
status=0
for file; do
    if [ ! -r "$file" ]; then
        echo "ident: cannot read $file" >&2
        status=1
        continue
    fi
    echo "$file:"
    LC_ALL=C grep -aoE '\$[A-Za-z][A-Za-z0-9_]*: [^$[:cntrl:]]* ?\$' "$file" | LC_ALL=C sort -u | sed 's/^/     /'
done
exit $status
