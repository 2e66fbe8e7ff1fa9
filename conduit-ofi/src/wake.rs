//! The wake-up of sleeping threads.

use crate::net::Net;
use gasnet_conduit::Wake;

impl Wake for Net {
    fn fd(&self) -> i32 {
        self.link().endpoint.wake.unwrap_or(-1)
    }

    fn devices(&self) -> Vec<String> {
        vec![self.link().endpoint.info().domain()]
    }

    fn arm(&self) -> bool {
        // Polls start operations that are stalled.
        self.link().stalled.is_empty() && self.link().endpoint.may_sleep()
    }
}
