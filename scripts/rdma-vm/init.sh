#!/bin/sh
# The first process in the machine, from the initramfs: mounts an overlay of the host's root file
# system and hands over to guest.sh. /modules has the kernel's modules, and their order in a file.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
# Without a status file the host knows that the machine failed.
fail() {
    echo "init: $* failed" >/dev/kmsg
    $b poweroff -f
}
for module in $($b cat /modules/order); do $b insmod "/modules/$module" || fail "insmod $module"; done
options=trans=virtio,version=9p2000.L,msize=512000
$b mount -t 9p -o $options,ro,cache=loose root /host || fail "the host's root"
$b mount -t tmpfs -o size=75% tmpfs /written && $b mkdir /written/upper /written/work
$b mount -t overlay -o lowerdir=/host,upperdir=/written/upper,workdir=/written/work overlay /new || fail overlay
for folder in proc sys dev; do $b mount --move /$folder /new/$folder || fail "moving $folder"; done
$b mkdir -p /new/dev/pts /new/dev/shm
$b mount -t devpts devpts /new/dev/pts
$b mount -t tmpfs -o mode=1777 tmpfs /new/dev/shm
$b mount -t tmpfs tmpfs /new/run
$b mkdir -p /new/run/lock /new/run/rdma-vm
$b mount -t 9p -o $options,cache=none run /new/run/rdma-vm || fail "the host's folder"
$b ln -s /proc/self/fd /new/dev/fd
for link in stdin:0 stdout:1 stderr:2; do $b ln -s /proc/self/fd/${link#*:} /new/dev/${link%:*}; done
exec $b chroot /new /bin/sh /run/rdma-vm/guest.sh
