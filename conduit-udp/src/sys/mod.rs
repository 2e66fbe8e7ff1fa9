//! System calls on datagram sockets.

mod receive;
mod send;

use gasnet_sys::cancel;
use std::io;
use std::mem::size_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// Largest payload of a UDP datagram over IPv4, bytes.
const MAX_PAYLOAD: usize = 65_507;
/// Receive buffer of a connected socket, for its error queue.
const ERROR_QUEUE_BYTES: libc::c_int = 64 << 10;
const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;

pub use receive::{Received, RECV_BATCH, RECV_BUFFER};
pub use send::{DatagramSlices, SEND_BATCH};

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// An address as the kernel takes it.
#[derive(Clone, Copy)]
pub struct Address {
    bytes: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.socket_addr())
    }
}

impl Address {
    /// Converts an address.
    pub fn new(address: SocketAddr) -> Self {
        // SAFETY: all-zero bytes are a valid value of this plain structure.
        let mut bytes: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let length = match address {
            SocketAddr::V4(v4) => {
                let value = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: a sockaddr_storage has room and alignment for every kind of address.
                unsafe { ptr::from_mut(&mut bytes).cast::<libc::sockaddr_in>().write(value) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let value = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { ptr::from_mut(&mut bytes).cast::<libc::sockaddr_in6>().write(value) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Self {
            bytes,
            length: length as libc::socklen_t,
        }
    }

    /// The address, if its family is IPv4 or IPv6.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        match libc::c_int::from(self.bytes.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family determines the type of the bytes.
                let v4 = unsafe { *ptr::from_ref(&self.bytes).cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let v6 = unsafe { *ptr::from_ref(&self.bytes).cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

/// An entry of the error queue: a datagram that was not delivered.
pub struct DeliveryError<'a> {
    /// The cause.
    pub error: io::Error,
    /// Its destination.
    pub address: Option<SocketAddr>,
    /// The beginning of its payload, as far as the error quotes it.
    pub quote: &'a [u8],
}

/// A UDP socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// The address it is bound to.
    pub address: SocketAddr,
    /// Bytes of its receive buffer, as the kernel reports it.
    pub buffer: usize,
}

impl Socket {
    /// Binds a socket to `address`; port 0 lets the kernel choose. Requests buffers of `bytes`, and
    /// accepts smaller ones.
    pub fn open(address: SocketAddr, bytes: usize) -> io::Result<Self> {
        let family = if address.is_ipv4() {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::socket(family, kind, 0) })?;
        // SAFETY: the call just made this descriptor; nothing else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        for (forced, plain) in [
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        ] {
            // A user without the privilege to exceed the limit gets the limit.
            if set_option(&fd, libc::SOL_SOCKET, forced, bytes as libc::c_int).is_err() {
                set_option(&fd, libc::SOL_SOCKET, plain, bytes as libc::c_int)?;
            }
        }
        // Without the error queue, an ICMP error would fail the next call, whatever its
        // destination. The kernel fragments datagrams above the path MTU.
        if address.is_ipv4() {
            set_option(&fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
            set_option(&fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT)?;
        } else {
            set_option(&fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
            set_option(
                &fd,
                libc::IPPROTO_IPV6,
                libc::IPV6_MTU_DISCOVER,
                libc::IPV6_PMTUDISC_DONT,
            )?;
        }
        let _ = set_option(&fd, libc::IPPROTO_UDP, UDP_GRO, 1);
        let buffer = get_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF)? as usize;
        let requested = Address::new(address);
        // SAFETY: the address is live and of the length given.
        check(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(&requested.bytes).cast(), requested.length) })?;
        let mut bound = requested;
        bound.length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        // SAFETY: address and length are live, and the length is that of the address's storage.
        check(unsafe {
            libc::getsockname(
                fd.as_raw_fd(),
                ptr::from_mut(&mut bound.bytes).cast(),
                &mut bound.length,
            )
        })?;
        let address = bound.socket_addr().ok_or(io::ErrorKind::Unsupported)?;
        Ok(Self { fd, address, buffer })
    }

    /// Opens a socket that sends to one address only. The kernel does not look up the route each
    /// time.
    pub fn connected(&self, to: &Address, bytes: usize) -> io::Result<Self> {
        let socket = Self::open(SocketAddr::new(self.address.ip(), 0), bytes)?;
        // Room for the error queue. Nothing is received here, so datagrams must not fill the
        // buffer.
        set_option(&socket.fd, libc::SOL_SOCKET, libc::SO_RCVBUF, ERROR_QUEUE_BYTES)?;
        socket.drop_input()?;
        // SAFETY: the address is live and of the length given.
        check(unsafe { libc::connect(socket.fd.as_raw_fd(), ptr::from_ref(&to.bytes).cast(), to.length) })?;
        Ok(socket)
    }

    /// Attaches a filter that drops every incoming datagram.
    fn drop_input(&self) -> io::Result<()> {
        let mut drop_all = libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: 0,
        };
        let program = libc::sock_fprog {
            len: 1,
            filter: &raw mut drop_all,
        };
        let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
        // SAFETY: the program is live and of the length given, and so is what it points to. The
        // kernel makes a copy.
        check(unsafe {
            let value = ptr::from_ref(&program).cast();
            libc::setsockopt(self.raw(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, value, length)
        })
        .map(drop)
    }

    /// The descriptor.
    pub fn raw(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Removes the next entry of the error queue. The beginning of the datagram is copied into
    /// `quote`.
    pub fn next_error<'a>(&self, quote: &'a mut [u8]) -> Option<DeliveryError<'a>> {
        let mut name = Address::new(self.address);
        let mut vector = libc::iovec {
            iov_base: quote.as_mut_ptr().cast(),
            iov_len: quote.len(),
        };
        // SAFETY: a msghdr is plain data, for which zero is a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = ptr::from_mut(&mut name.bytes).cast();
        message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        message.msg_iov = &mut vector;
        message.msg_iovlen = 1;
        let mut controls = [const { ControlBuffer([0; 32]) }; 16];
        message.msg_control = controls.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&controls) as _;
        let _whole = cancel::disable();
        // SAFETY: everything that the message points to is live and writable.
        let got = unsafe { libc::recvmsg(self.raw(), &mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
        if got < 0 {
            return None;
        }
        let mut number = 0;
        // SAFETY: the kernel has filled the control buffer, whose messages these calls walk
        // through.
        unsafe {
            let mut head = libc::CMSG_FIRSTHDR(&message);
            while !head.is_null() {
                let kind = ((*head).cmsg_level, (*head).cmsg_type);
                if kind == (libc::IPPROTO_IP, libc::IP_RECVERR) || kind == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) {
                    number = libc::CMSG_DATA(head).cast::<u32>().read_unaligned();
                }
                head = libc::CMSG_NXTHDR(&message, head);
            }
        }
        Some(DeliveryError {
            error: io::Error::from_raw_os_error(number as i32),
            address: name.socket_addr(),
            quote: &quote[..got as usize],
        })
    }
}

/// An aligned buffer for one control message of a few bytes.
#[repr(C, align(8))]
struct ControlBuffer([u8; 32]);

/// Bytes of the largest payload to `address` that the kernel does not fragment, as far as it knows
/// the path MTU.
pub fn path_payload(address: SocketAddr) -> io::Result<usize> {
    let _whole = cancel::disable();
    let v4 = address.is_ipv4();
    let family = if v4 { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the call just made this descriptor; nothing else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let to = Address::new(address);
    // SAFETY: the address is live and of the length given.
    check(unsafe { libc::connect(fd.as_raw_fd(), ptr::from_ref(&to.bytes).cast(), to.length) })?;
    let (mtu, headers) = if v4 {
        (get_option(&fd, libc::IPPROTO_IP, libc::IP_MTU)?, 28)
    } else {
        (get_option(&fd, libc::IPPROTO_IPV6, libc::IPV6_MTU)?, 48)
    };
    Ok((mtu.max(0) as usize).saturating_sub(headers).min(MAX_PAYLOAD))
}

/// Whether a send error may mean that the kernel does not support GSO, or not for datagrams of this
/// length.
pub fn is_gso_refusal(error: &io::Error) -> bool {
    let refusals = [
        libc::EIO,
        libc::EINVAL,
        libc::EMSGSIZE,
        libc::ENOPROTOOPT,
        libc::EOPNOTSUPP,
    ];
    error.raw_os_error().is_some_and(|number| refusals.contains(&number))
}

fn set_option(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is live and of the length given.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), length) }).map(drop)
}

fn get_option(fd: &OwnedFd, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let (mut value, mut length) = (0, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: both are live, and the length is that of the value.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            ptr::from_mut(&mut value).cast(),
            &mut length,
        )
    })?;
    Ok(value)
}
