//! `EMU_PMI`: words `name` or `name=value` between spaces. The user's are described in
//! `emulators/README.md`; the launcher adds `at=` and `rank=` for each rank.

pub const VARIABLE: &str = "EMU_PMI";

#[allow(clippy::struct_excessive_bools)] // Each is a word of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Seed of the order in which gathers return contributions.
    pub seed: u64,
    /// A fence is no barrier.
    pub lazy_fence: bool,
    /// `PMI_GNI_DEV_ID` and `PMI_GNI_LOC_ADDR` are not set.
    pub no_dev_id: bool,
    /// Variables with credentials are lists.
    pub colon_lists: bool,
    /// Credentials are in `CRAY_COOKIES` only, which srun sets.
    pub cookies_only: bool,
    /// An exit without finalisation does not end the job.
    pub lenient: bool,
    /// For a rank: the launcher's socket, and the rank.
    pub place: Option<(String, u32)>,
}

impl Words {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = Self {
            seed: 1,
            ..Self::default()
        };
        let (mut at, mut rank) = (None, None);
        for word in text.split_ascii_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || value.parse::<u64>().map_err(|_| format!("{word}: not a number"));
            match (name, value) {
                ("seed", _) => words.seed = number()?,
                ("at", _) => at = Some(value.to_owned()),
                ("rank", _) => rank = Some(number()? as u32),
                ("lazy-fence", "") => words.lazy_fence = true,
                ("no-dev-id", "") => words.no_dev_id = true,
                ("colon-lists", "") => words.colon_lists = true,
                ("cookies-only", "") => words.cookies_only = true,
                ("lenient", "") => words.lenient = true,
                ("strict", "") => words.lenient = false,
                _ => {
                    return Err(format!(
                        "{word}: unknown word; known are seed=N, lazy-fence, no-dev-id, colon-lists, cookies-only, \
                         lenient, strict"
                    ))
                }
            }
        }
        words.place = at.zip(rank);
        Ok(words)
    }

    pub fn of_environment() -> Result<Self, String> {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        Self::parse(&text).map_err(|why| format!("{VARIABLE}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let words = Words::parse(" seed=7  lazy-fence at=x rank=3").unwrap();
        assert_eq!((words.seed, words.lazy_fence, words.colon_lists), (7, true, false));
        assert_eq!(words.place, Some(("x".into(), 3)));
        assert!(Words::parse("seed=x").is_err() && Words::parse("lazy").is_err() && Words::parse("strict=1").is_err());
    }
}
