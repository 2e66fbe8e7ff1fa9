#!/bin/sh
# setup.sh: downloads Debian's kernel (70 MB) and busybox, and makes the images that
# scripts/rdma-vm/run boots: $BUILD/rdma-vm/vmlinuz and initrd. When these are there it uses no
# network. The packages it needs are installed by scripts/setup.sh.
. "$(dirname -- "$0")/../common.sh"
PATH=$PATH:/usr/sbin:/sbin
image=$BUILD/rdma-vm
here=$ROOT/scripts/rdma-vm
mkdir -p "$image"
cd "$image"

# download: the packages, unpacked in the folder `kernel`.
download() {
    kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p')
    rm -rf packages kernel.new
    mkdir packages
    (cd packages && apt-get -q -o Acquire::Retries=3 -o APT::Sandbox::User=root download \
        "${kernel:?there is no linux-image-amd64}" busybox-static)
}
if [ ! -d kernel ]; then
    echo "setup: downloading a kernel to $image"
    download || { [ "$(id -u)" -eq 0 ] && apt-get -q update && download; }
    for package in packages/*.deb; do dpkg -x "$package" kernel.new; done
    rm -rf packages
    mv kernel.new kernel
fi
[ ! initrd -nt "$here/setup.sh" ] || [ ! initrd -nt "$here/init.sh" ] || exit 0

release=$(basename -- "$(find kernel/lib/modules kernel/usr/lib/modules -mindepth 1 -maxdepth 1 2>/dev/null | head -n 1)")
[ -d kernel/lib ] || ln -s usr/lib kernel/lib
cp "kernel/boot/vmlinuz-$release" vmlinuz
busybox=$(find "$PWD"/kernel/bin "$PWD"/kernel/usr/bin -name busybox 2>/dev/null | head -n 1)
rm -rf initramfs
mkdir initramfs
(
    cd initramfs
    mkdir bin modules host written new dev proc sys
    cp "$busybox" bin/busybox
    ln -s busybox bin/sh
    install -m 755 "$here/init.sh" init
)
depmod -b kernel "$release"
# The kernel chooses the fastest checksum that it has: those of the CPU come before rdma_rxe.
for module in virtio_pci virtio_console 9pnet_virtio 9p overlay veth crc32_generic crc32-pclmul ib_uverbs ib_umad \
    rdma_ucm rdma_rxe; do
    modprobe -d kernel -S "$release" --show-depends $module
done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' | while read -r file; do
    name=$(basename -- "$file" .xz)
    case $file in *.xz) xz -dc "$file" ;; *) cat "$file" ;; esac >"initramfs/modules/$name"
    echo "$name" >>initramfs/modules/order
done
grep -qx rdma_rxe.ko initramfs/modules/order || { echo "setup: the kernel $release has no SoftRoCE" >&2; exit 1; }
(cd initramfs && find . | "$busybox" cpio -o -H newc) >initrd.new 2>/dev/null
rm -rf initramfs
mv initrd.new initrd
