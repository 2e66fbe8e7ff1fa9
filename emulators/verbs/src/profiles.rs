//! Word `device`: what a device of the field says of itself and refuses, as other words. Limits
//! differ by firmware: each profile is a sample. docs: docs/ibv.md.

/// A device.
pub struct Profile {
    pub name: &'static str,
    /// Words of EMU_VERBS. Limits above those of the emulator (30 SGEs) stand for them.
    pub words: &'static str,
}

pub const PROFILES: &[Profile] = &[
    // claudebarthels/infinity#5 (fw 2.33); rdma-core@691953d8d: providers/mlx4.
    Profile {
        name: "mlx4",
        words: "link=ib name=mlx4_ max-qp-wr=16351 max-sge=30 max-inline=1024 max-cqe=4194303 \
                max-mr=18446744073709551615 max-srq-wr=16383 rd-atom=16:128 no-apm no-odp no-dmabuf no-order",
    },
    // open-mpi/ompi#6137 (fw 16.23); openucx/ucx#10317; rdma-core: providers/mlx5.
    Profile {
        name: "mlx5",
        words: "link=ib name=mlx5_ max-qp-wr=32768 wqe-units max-sge=30 max-inline=1024 max-cqe=4194303 \
                max-mr=18446744073709551615 max-srq-wr=32767 rd-atom=16 max-msg=1073741824",
    },
    // uccl-project/uccl#250; rdma-core: providers/bnxt_re; linux: hw/bnxt_re.
    Profile {
        name: "bnxt_re",
        words: "link=roce name=bnxt_re max-qp-wr=4351 max-sge=6 max-inline=96 max-cqe=8388607 \
                max-mr=549755813888 rd-atom=126 atomic=glob no-xrc no-odp no-order max-msg=1073741824",
    },
    // deepseek-ai/3FS#192 (fw 1.74); rdma-core: providers/irdma.
    Profile {
        name: "irdma",
        words: "link=roce name=irdma max-qp-wr=8127 max-sge=6 max-inline=101 max-cqe=1048574 \
                max-mr=35184372088832 rd-atom=8 atomic=none no-srq no-xrc no-odp no-order max-msg=2147483647",
    },
    // HIP08. linux: hw/hns; rdma-core: providers/hns.
    Profile {
        name: "hns",
        words: "link=roce name=hns_ max-qp-wr=32768 max-sge=30 max-sge-rd=1 max-inline=1024 clamp-inline=32 \
                max-cqe=4194304 max-mr=18446744073709551615 max-srq-wr=32768 rd-atom=128 no-ud no-xrc no-odp \
                no-dmabuf no-order max-msg=2147483648",
    },
    // linux (6.1): sw/rxe/rxe_param.h; measured.
    Profile {
        name: "rxe",
        words: "link=roce name=rxe max-qp-wr=1048576 max-sge=30 max-inline=512 max-cqe=32767 \
                max-mr=18446744073709551615 max-srq-wr=1048576 rd-atom=128 no-xrc no-odp no-dmabuf no-order \
                no-sqe no-v1 max-msg=8388608",
    },
    // linux@1440bdb: hw/mana/main.c; rdma-core: providers/mana. Its firmware's numbers are guesses.
    Profile {
        name: "mana",
        words: "link=roce name=mana_ max-qp-wr=1024 max-cqe=1024 max-sge=6 max-inline=1024 clamp-inline=32 \
                max-mr=18446744073709551615 rd-atom=16 atomic=none no-ud no-srq no-xrc no-odp no-order no-v1 \
                max-msg=0",
    },
    // openucx/ucx#5148 (fw 8.37); rdma-core: providers/qedr; linux: hw/qedr/verbs.c.
    Profile {
        name: "qedr",
        words: "link=roce name=qedr max-qp-wr=32767 max-sge=4 max-inline=256 max-cqe=8388480 \
                max-mr=1099511627776 rd-atom=32 atomic=none no-ud no-xrc no-odp no-dmabuf no-order",
    },
    // linux@031616c: hw/efa/efa_verbs.c; rdma-core: providers/efa. Lengths of queues are guesses.
    Profile {
        name: "efa",
        words: "srd name=efa_ max-qp-wr=4096 max-sge=2 max-inline=32 max-cqe=32768 rd-atom=0 atomic=none no-srq \
                no-xrc no-apm no-odp no-order lmc=1 max-msg=4096",
    },
    // linux@010e85f: hw/hfi1/verbs.c, sw/rdmavt/qp.c; rdma-core: providers/hfi1verbs.
    Profile {
        name: "hfi1",
        words: "link=ib name=hfi1_ max-qp-wr=16383 max-sge=30 max-inline=1024 clamp-inline=0 max-cqe=3145727 \
                max-mr=18446744073709551615 max-srq-wr=131071 rd-atom=16:255 atomic=glob no-xrc no-apm no-odp \
                no-dmabuf no-order max-msg=2147483648",
    },
];

/// The words of a device. The error names all.
pub fn words(device: &str) -> Result<&'static str, String> {
    let found = PROFILES.iter().find(|profile| profile.name == device);
    found.map(|profile| profile.words).ok_or_else(|| {
        let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
        format!("must be one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use emulator_common::words::Words;
    use gasnet_ibv_abi as abi;

    use super::*;
    use crate::config::{Config, Link};

    #[test]
    fn every_profile_consists_of_words() {
        for (index, profile) in PROFILES.iter().enumerate() {
            let config = Config::parse(&format!("dir=/d device={}", profile.name)).unwrap();
            assert!(config.name.starts_with(profile.name), "{}", profile.name);
            assert!(PROFILES[..index].iter().all(|other| other.name != profile.name));
        }
    }

    #[test]
    fn later_words_override() {
        let config = Config::parse("dir=/d max-inline=7 device=irdma max-qp-wr=9 atomic=hca").unwrap();
        assert_eq!(
            (config.link(0), config.max_inline, config.max_qp_wr),
            (Link::Roce, 101, 9)
        );
        assert_eq!((config.atomics, config.srq), (abi::IBV_ATOMIC_HCA, false));
    }

    #[test]
    fn other_names_list_the_choices() {
        let why = Config::parse("dir=/d device=mlx6").unwrap_err();
        assert!(
            why.starts_with("device=mlx6: must be one of mlx4, mlx5, bnxt_re, "),
            "{why}"
        );
    }
}
