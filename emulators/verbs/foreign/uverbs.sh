#!/bin/sh
# uverbs.sh COMMAND...: runs a command where /dev/infiniband/uverbs0 to 3 exist, which UCX opens to
# find out whether it may use devices, and the emulator does not have. Needs root: the command gets
# a mount namespace with a copy of /dev.
set -eu
[ "${UVERBS_NAMESPACE:-}" ] || exec env UVERBS_NAMESPACE=1 unshare --mount "$0" "$@"
unset UVERBS_NAMESPACE
mount -t tmpfs none /mnt
mkdir /mnt/old /mnt/new
mount --rbind /dev /mnt/old
mount -t tmpfs -o mode=755 none /mnt/new
for path in /mnt/old/*; do
    copy=/mnt/new/${path##*/}
    if [ -L "$path" ]; then
        cp -P "$path" "$copy"
    elif [ -d "$path" ]; then
        mkdir "$copy"
        mount --rbind "$path" "$copy"
    else
        touch "$copy"
        mount --bind "$path" "$copy"
    fi
done
mkdir -p /mnt/new/infiniband
for number in 0 1 2 3; do
    mknod -m 666 "/mnt/new/infiniband/uverbs$number" c 1 3
done
mount --rbind /mnt/new /dev
exec "$@"
