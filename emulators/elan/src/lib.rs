//! A software shim of libelan (`conduit-elan/shim.h`) for tests, between processes of one host
//! (emulators/README.md). It has no daemon: queues lie in shared memory, and the process that puts
//! or gets accesses the memory of its peer. Reading order:
//!
//! - `config`, `forge`, `misuse`, `object`: options, altered messages, fatal errors, handles
//! - `shm`, `ring`, `port_entry`: the fabric, and queues and ports in it
//! - `reclaim`, `process`: the end of attachments, and this process's part of a fabric
//! - `pool`, `event`, `traffic`, `attachment`: an attachment of this process, and its parts
//! - `collective`: calls that all processes make
//! - `memory`, `window`: memory and network addresses
//! - `transfer`: puts and gets
//! - `queue`, `message`, `port`: messages
//! - `start`, `signal`: how a job starts, and how it ends

mod attachment;
mod collective;
mod config;
mod event;
mod forge;
mod memory;
mod message;
mod misuse;
mod object;
mod pool;
mod port;
mod port_entry;
mod process;
mod queue;
mod reclaim;
mod ring;
mod shm;
mod signal;
mod start;
mod traffic;
mod transfer;
mod window;

use emulator_common::words::Words;
use gasnet_elan_abi as abi;

const TABLE: abi::gasnet_elan_shim_t = abi::gasnet_elan_shim_t {
    version: abi::GASNET_ELAN_SHIM_VERSION,
    start: Some(start::start),
    stop: Some(start::stop),
    alloc: Some(memory::alloc),
    free: Some(memory::free),
    symmetric: Some(memory::symmetric),
    symmetric_free: Some(memory::symmetric_free),
    is_addressable: Some(window::is_addressable),
    map: Some(window::map),
    unmap: Some(window::unmap),
    channel: Some(transfer::channel),
    put: Some(transfer::put),
    get: Some(transfer::get),
    poll: Some(transfer::poll),
    wait: Some(transfer::wait),
    queue: Some(queue::queue),
    queue_send: Some(queue::queue_send),
    queue_has: Some(queue::queue_has),
    queue_receive: Some(queue::queue_receive),
    port: Some(port::port),
    port_send: Some(port::port_send),
    port_sent: Some(port::port_sent),
    port_offer: Some(port::port_offer),
    port_arrived: Some(port::port_arrived),
    port_receive: Some(port::port_receive),
    port_free: Some(port::port_free),
    sync: Some(collective::sync),
    barrier: Some(collective::barrier),
    broadcast: Some(collective::broadcast),
    signal_job: Some(signal::signal_job),
};

static SHIM: abi::gasnet_elan_shim_t = TABLE;
/// The interface with option `other-version`.
static OTHER: abi::gasnet_elan_shim_t = abi::gasnet_elan_shim_t {
    version: abi::GASNET_ELAN_SHIM_VERSION + 1,
    ..TABLE
};

/// The interface. It is constant.
#[no_mangle]
pub extern "C" fn gasnet_elan_shim() -> *const abi::gasnet_elan_shim_t {
    let is_other = config::Config::of_environment().is_ok_and(|config| config.other_version);
    if is_other {
        &raw const OTHER
    } else {
        &raw const SHIM
    }
}
