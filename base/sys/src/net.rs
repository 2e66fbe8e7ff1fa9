//! Addresses of this host, its name, and connection options that the standard library lacks.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::ptr;
use std::time::Duration;

use rustix::net::sockopt;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// The address.
    pub ip: IpAddr,
    /// Length of the network prefix in bits.
    pub prefix: u32,
}

impl HostAddress {
    /// Whether `other` is in the network of this address.
    pub fn network_has(&self, other: IpAddr) -> bool {
        let (own, other, width) = match (self.ip, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
            _ => return false,
        };
        let rest = width - self.prefix.min(width);
        rest == 128 || (own ^ other) >> rest == 0
    }
}

fn address(socket: *const libc::sockaddr) -> Option<IpAddr> {
    if socket.is_null() {
        return None;
    }
    // SAFETY: points to an address from the system; every kind begins with its family.
    match i32::from(unsafe { (*socket).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family gives the type; no alignment is assumed.
            let v4 = unsafe { socket.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { socket.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Number of leading ones of a network mask.
fn prefix(mask: Option<IpAddr>) -> u32 {
    match mask {
        Some(IpAddr::V4(mask)) => mask.to_bits().leading_ones(),
        Some(IpAddr::V6(mask)) => mask.to_bits().leading_ones(),
        None => u32::MAX,
    }
}

/// The addresses of all interfaces, each with the interface's name, and whether that is up.
pub fn interfaces() -> Vec<(String, bool, HostAddress)> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the pointer is writable.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut all = Vec::new();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: an element of the list, which is freed below.
        let interface = unsafe { &*at };
        if let Some(ip) = address(interface.ifa_addr) {
            // SAFETY: the name of an element is terminated.
            let name = unsafe { CStr::from_ptr(interface.ifa_name) };
            let up = interface.ifa_flags & libc::IFF_UP as u32 != 0;
            let prefix = prefix(address(interface.ifa_netmask));
            all.push((name.to_string_lossy().into_owned(), up, HostAddress { ip, prefix }));
        }
        at = interface.ifa_next;
    }
    // SAFETY: the list from getifaddrs, freed once.
    unsafe { libc::freeifaddrs(first) };
    all
}

/// The addresses of the interfaces that are up, loopback last. Except link-local ones (fe80::),
/// which need a scope.
pub fn addresses() -> Vec<HostAddress> {
    let is_link_local = |ip: IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let all = interfaces()
        .into_iter()
        .filter(|(_, up, own)| *up && !is_link_local(own.ip));
    let mut all: Vec<_> = all.map(|(.., own)| own).collect();
    all.sort_by_key(|own| own.ip.is_loopback());
    all
}

/// The boot of this host's kernel, and the network namespace of this process. Processes with the
/// same reach each other's local sockets in the abstract namespace.
pub fn boot_and_namespace() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = std::fs::read_link("/proc/self/ns/net")
        .map(|link| link.to_string_lossy().into_owned())
        .unwrap_or_default();
    format!("{} {network}", boot.trim())
}

/// The name of this host.
pub fn host_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    if name.is_empty() {
        return "localhost".into();
    }
    name.into_owned()
}

/// Lets as many connections wait at a listening socket as the kernel allows.
pub fn lengthen_queue(listener: &impl AsFd) -> io::Result<()> {
    Ok(rustix::net::listen(listener, i32::MAX)?)
}

/// Makes a connection fail about half a minute after the other host vanishes, whether data is in
/// flight or not.
pub fn notice_silence(socket: &impl AsFd) -> io::Result<()> {
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(socket, 4)?;
    // In milliseconds.
    sockopt::set_tcp_user_timeout(socket, 30_000)?;
    Ok(())
}

/// Whether this process may read standard input: if that is a terminal, only its foreground process
/// group may, and the kernel stops the others.
pub fn may_read_stdin() -> bool {
    // Not rustix: it has no result for a foreground group that is not visible here (0).
    // SAFETY: takes a number.
    let group = unsafe { libc::tcgetpgrp(0) };
    group < 0 || group == rustix::process::getpgrp().as_raw_nonzero().get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let home = HostAddress {
            ip: "192.168.7.3".parse().unwrap(),
            prefix: 20,
        };
        for (other, inside) in [
            ("192.168.0.0", true),
            ("192.168.15.255", true),
            ("192.168.16.0", false),
            ("::1", false),
        ] {
            assert_eq!(home.network_has(other.parse().unwrap()), inside, "{other}");
        }
        let six = |prefix| HostAddress {
            ip: "fd77::1".parse().unwrap(),
            prefix,
        };
        let other = "fd77::2:0".parse().unwrap();
        assert!(six(64).network_has(other) && six(0).network_has(other) && !six(128).network_has(other));
    }

    #[test]
    fn this_host_has_addresses_and_a_name() {
        let all = addresses();
        assert!(all.iter().any(|a| a.ip.is_loopback()), "{all:?}");
        assert!(!host_name().is_empty());
    }
}
