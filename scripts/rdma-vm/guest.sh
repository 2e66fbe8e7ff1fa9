#!/bin/sh
# The second stage in the machine: makes two SoftRoCE devices on both ends of a veth pair, runs the
# command and switches off.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
off() {
    echo o >/proc/sysrq-trigger
    sleep 60
}
# Without a status file the host knows that the machine failed.
fail() {
    echo "guest: $* failed" >/dev/kmsg
    off
}
cd /proc/sys/net || fail /proc/sys/net
hostname rdma-vm
# Both addresses are the machine's own: let packets leave by one end and enter by the other.
for name in all default; do
    echo 0 >ipv4/conf/$name/rp_filter
    echo 1 >ipv4/conf/$name/accept_local
    echo 0 >ipv6/conf/$name/accept_dad
done
# SoftRoCE has no flow control: a burst must fit the socket's buffer.
echo 16777216 >core/rmem_max
echo 4194304 >core/rmem_default
ip link set lo up
# The MTU fits a RoCE MTU of 4096 bytes.
ip link add veth0 mtu 4200 address 02:00:00:00:00:01 type veth \
    peer name veth1 mtu 4200 address 02:00:00:00:00:02 || fail "ip link add"
for end in 0 1; do
    peer=$((1 - end))
    ip addr add 10.77.0.$((1 + end))/24 dev veth$end
    ip link set veth$end up
    ip neigh add 10.77.0.$((1 + peer)) lladdr 02:00:00:00:00:0$((1 + peer)) dev veth$end nud permanent
done
for end in 0 1; do rdma link add rxe$end type rxe netdev veth$end || fail "rdma link add rxe$end"; done
for port in /sys/class/virtio-ports/*; do
    read -r name <"$port/name"
    case $name in
    stdout) stdout=/dev/${port##*/} ;;
    stderr) stderr=/dev/${port##*/} ;;
    esac
done
# shellcheck disable=SC3045 # Debian's sh has these options
ulimit -l unlimited && ulimit -n 65536
sh /run/rdma-vm/command </dev/null >"${stdout:?}" 2>"${stderr:?}"
echo $? >/run/rdma-vm/status
off
