//! Addresses of this host, its name, and options of connections that the standard library lacks.

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::ptr;

use super::check;

/// An address of an interface that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// The address.
    pub ip: IpAddr,
    /// The length of its network's prefix, in bits.
    pub prefix: u32,
}

impl HostAddress {
    /// Whether `other` lies in the network of this address.
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
    // SAFETY: the system gave a pointer to an address; every kind begins with its family.
    match i32::from(unsafe { (*socket).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says what it points to; no alignment is assumed.
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

/// Ones at the front of a mask.
fn prefix(mask: Option<IpAddr>) -> u32 {
    match mask {
        Some(IpAddr::V4(mask)) => mask.to_bits().leading_ones(),
        Some(IpAddr::V6(mask)) => mask.to_bits().leading_ones(),
        None => u32::MAX,
    }
}

/// The addresses of this host's interfaces that are up, but for those of one link only (fe80::), which need a scope; loop-back ones are last.
pub fn addresses() -> Vec<HostAddress> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the pointer is ours to write.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut all = Vec::new();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: an element of the list that is freed below.
        let interface = unsafe { &*at };
        let up = interface.ifa_flags & libc::IFF_UP as u32 != 0;
        if let Some(ip) = address(interface.ifa_addr).filter(|_| up) {
            let of_link = matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
            if !of_link {
                let prefix = prefix(address(interface.ifa_netmask));
                all.push(HostAddress { ip, prefix });
            }
        }
        at = interface.ifa_next;
    }
    // SAFETY: what getifaddrs gave, once.
    unsafe { libc::freeifaddrs(first) };
    all.sort_by_key(|a| a.ip.is_loopback());
    all
}

/// What this host calls itself.
pub fn host_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer has that many bytes, and one more, which stays zero.
    if unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0 {
        return "localhost".into();
    }
    CStr::from_bytes_until_nul(&name).map_or_else(|_| "localhost".into(), |name| name.to_string_lossy().into_owned())
}

fn set(socket: &impl AsRawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    let size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value lives through the call, and has that size.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size) }).map(drop)
}

/// A connection whose other host has vanished without a word ends after about half a minute, whether there is something to send or not.
pub fn notice_silence(socket: &impl AsRawFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 10)?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 5)?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4)?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 30_000)
}

/// Whether this process may read the terminal, if standard input is one: the terminal stops others that try.
pub fn may_read_stdin() -> bool {
    // SAFETY: takes a number.
    let group = unsafe { libc::tcgetpgrp(0) };
    // SAFETY: no arguments.
    group < 0 || group == unsafe { libc::getpgrp() }
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
