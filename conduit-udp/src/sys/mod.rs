//! System calls on datagram sockets.

mod receive;
mod send;

use gasnet_sys::cancel;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

/// An address as the kernel takes it.
pub use rustix::net::SocketAddrAny as Address;

/// Largest payload of a UDP datagram over IPv4, bytes.
const MAX_PAYLOAD: usize = 65_507;
/// Receive buffer of a connected socket, for its error queue.
const ERROR_QUEUE_BYTES: usize = 64 << 10;
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
    udp: UdpSocket,
    /// The address it is bound to.
    pub address: SocketAddr,
    /// Bytes of its receive buffer, as the kernel reports it.
    pub buffer: usize,
}

impl Socket {
    /// Binds a socket to `address`; port 0 lets the kernel choose. Requests buffers of `bytes`, and
    /// accepts smaller ones.
    pub fn open(address: SocketAddr, bytes: usize) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        // A user without the privilege to exceed the limit gets the limit.
        sockopt::set_socket_recv_buffer_size_force(&socket, bytes)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, bytes))?;
        sockopt::set_socket_send_buffer_size_force(&socket, bytes)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, bytes))?;
        // Without the error queue, an ICMP error would fail the next call, whatever its
        // destination. The kernel fragments datagrams above the path MTU.
        if address.is_ipv4() {
            enable(&socket, libc::IPPROTO_IP, libc::IP_RECVERR)?;
            sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DONT)?;
        } else {
            enable(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR)?;
            sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DONT)?;
        }
        let _ = enable(&socket, libc::IPPROTO_UDP, UDP_GRO);
        Ok(Self {
            address: socket.local_addr()?,
            buffer: sockopt::socket_recv_buffer_size(&socket)?,
            udp: socket,
        })
    }

    /// Opens a socket that sends to one address only. The kernel does not look up the route each
    /// time.
    pub fn connected(&self, to: SocketAddr, bytes: usize) -> io::Result<Self> {
        let socket = Self::open(SocketAddr::new(self.address.ip(), 0), bytes)?;
        // Room for the error queue. Nothing is received here, so datagrams must not fill the
        // buffer.
        sockopt::set_socket_recv_buffer_size(&socket.udp, ERROR_QUEUE_BYTES)?;
        socket.drop_input()?;
        socket.udp.connect(to)?;
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
        // SAFETY: the program's one instruction is live. The kernel makes a copy.
        unsafe { set_option(&self.udp, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program) }
    }

    /// The descriptor.
    pub fn raw(&self) -> i32 {
        self.udp.as_raw_fd()
    }

    /// Removes the next entry of the error queue. The beginning of the datagram is copied into
    /// `quote`.
    pub fn next_error<'a>(&self, quote: &'a mut [u8]) -> Option<DeliveryError<'a>> {
        let mut name = Address::from(self.address);
        let mut vector = libc::iovec {
            iov_base: quote.as_mut_ptr().cast(),
            iov_len: quote.len(),
        };
        // SAFETY: a msghdr is plain data, for which zero is a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // The destination is of the same family.
        message.msg_name = name.as_mut_ptr().cast();
        message.msg_namelen = name.addr_len();
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
            address: name.try_into().ok(),
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
    let any = if address.is_ipv4() {
        IpAddr::from(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::from(Ipv6Addr::UNSPECIFIED)
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    let (mtu, headers) = if address.is_ipv4() {
        (sockopt::ip_mtu(&socket)?, 28)
    } else {
        (sockopt::ipv6_mtu(&socket)?, 48)
    };
    Ok((mtu as usize).saturating_sub(headers).min(MAX_PAYLOAD))
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

/// Sets an option that is on or off.
fn enable(socket: &UdpSocket, level: libc::c_int, name: libc::c_int) -> io::Result<()> {
    // SAFETY: an integer has no pointers.
    unsafe { set_option(socket, level, name, &1) }
}

/// Sets an option.
///
/// # Safety
/// Pointers in the value are to live memory, as long as the option demands.
unsafe fn set_option<T>(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let (value, length) = (ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the value is live and of the length given. The caller answers for its pointers.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, length) }).map(drop)
}
