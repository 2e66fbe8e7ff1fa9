//! What a process needs to use the NIC, from Cray's launcher.

use crate::ugni::{Code, Functions};

/// Protection tag, cookie, and the NIC with its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub ptag: u8,
    pub cookie: u32,
    pub device: u32,
    pub nic: u32,
}

/// Those of this process. The error is a message without a full stop.
pub fn read(functions: &Functions) -> Result<Credentials, String> {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        text.split(':').next()?.trim().parse::<u32>().ok()
    };
    let (Some(ptag), Some(cookie)) = (number("PMI_GNI_PTAG"), number("PMI_GNI_COOKIE")) else {
        return Err("PMI_GNI_PTAG and PMI_GNI_COOKIE are not set. aprun and srun set them".into());
    };
    let device = number("PMI_GNI_DEV_ID").unwrap_or(0);
    let (mut nic, mut cpu) = (0, 0);
    // SAFETY: live variables.
    let code = unsafe { (functions.nic_address)(device, &raw mut nic, &raw mut cpu) };
    Code::check(code).map_err(|code| format!("GNI_CdmGetNicAddress failed: {code}"))?;
    Ok(Credentials {
        ptag: ptag as u8,
        cookie,
        device,
        nic,
    })
}
