//! Credentials of a process for the NIC, from Cray's launcher: `PMI_GNI_PTAG`, `PMI_GNI_COOKIE`,
//! `PMI_GNI_DEV_ID` and `PMI_GNI_LOC_ADDR`; or `CRAY_COOKIES`, from native Slurm. Launchers write
//! some of them as lists, of which the first entry counts, or that of the device.
#![forbid(unsafe_code)]

/// Protection tag, cookie, and the NIC with its address, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub ptag: u8,
    pub cookie: u32,
    pub device: u32,
    pub nic: Option<u32>,
}

impl Credentials {
    /// From variables, and the library's protection tag for a device and a cookie. The error is a
    /// message without a full stop.
    pub fn find(
        variable: impl Fn(&str) -> Option<String>,
        ptag_of: impl Fn(u32, u32) -> Option<u8>,
    ) -> Result<Self, String> {
        let entry = |name: &str, separator: char, index: usize| -> Result<Option<u32>, String> {
            let Some(text) = variable(name).filter(|text| !text.trim().is_empty()) else {
                return Ok(None);
            };
            let entry = text.split(separator).nth(index).map(str::trim);
            let Some(number) = entry.and_then(|entry| entry.parse().ok()) else {
                return Err(format!("{name}={text} has no number at place {index}"));
            };
            Ok(Some(number))
        };
        let device = entry("PMI_GNI_DEV_ID", ':', 0)?.unwrap_or(0);
        let nic = entry("PMI_GNI_LOC_ADDR", ':', device as usize)?;
        let (ptag, cookie) =
            if let (Some(ptag), Some(cookie)) = (entry("PMI_GNI_PTAG", ':', 0)?, entry("PMI_GNI_COOKIE", ':', 0)?) {
                let ptag = u8::try_from(ptag).map_err(|_| format!("PMI_GNI_PTAG={ptag} is more than 255"))?;
                (ptag, cookie)
            } else {
                let Some(cookie) = entry("CRAY_COOKIES", ',', 0)? else {
                    return Err(
                        "this process has no credentials for the network: neither PMI_GNI_PTAG and \
                            PMI_GNI_COOKIE nor CRAY_COOKIES are set. Start it with aprun or srun"
                            .into(),
                    );
                };
                let ptag = ptag_of(device, cookie)
                    .ok_or_else(|| format!("the library knows no protection tag for the cookie {cookie}"))?;
                (ptag, cookie)
            };
        Ok(Self {
            ptag,
            cookie,
            device,
            nic,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<Credentials, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Credentials::find(variable, |device, cookie| (cookie == 99).then_some(device as u8 + 40))
    }

    #[test]
    fn launchers_are_understood() {
        let of = |ptag, cookie, device, nic| {
            Ok(Credentials {
                ptag,
                cookie,
                device,
                nic,
            })
        };
        let (ptag, cookie) = (("PMI_GNI_PTAG", "17:18"), ("PMI_GNI_COOKIE", "4000000000:5"));
        assert_eq!(find(&[ptag, cookie]), of(17, 4_000_000_000, 0, None));
        let (device, nics) = (("PMI_GNI_DEV_ID", "1"), ("PMI_GNI_LOC_ADDR", "256:257"));
        assert_eq!(find(&[ptag, cookie, device, nics]), of(17, 4_000_000_000, 1, Some(257)));
        assert_eq!(find(&[("CRAY_COOKIES", "99,7"), device]), of(41, 99, 1, None));
        assert!(find(&[]).unwrap_err().contains("aprun"));
        assert!(find(&[ptag]).unwrap_err().contains("PMI_GNI_COOKIE"));
        assert!(find(&[("CRAY_COOKIES", "98")]).unwrap_err().contains("98"));
        assert!(find(&[("PMI_GNI_PTAG", "300"), cookie]).unwrap_err().contains("255"));
        assert!(find(&[("PMI_GNI_PTAG", "x"), cookie])
            .unwrap_err()
            .contains("PMI_GNI_PTAG=x"));
        let beyond = ("PMI_GNI_DEV_ID", "2");
        assert!(find(&[ptag, cookie, beyond, nics]).unwrap_err().contains("place 2"));
    }
}
