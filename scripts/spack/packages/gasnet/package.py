# SPDX-License-Identifier: MIT OR Apache-2.0
"""Spack package of libgasnet. It builds offline, because the release of `make dist` contains the
crates."""

import os

from spack.package import *

try:
    from spack_repo.builtin.build_systems.makefile import MakefilePackage
except ImportError:
    pass  # before Spack 1.0, spack.package exports it


CONDUITS = ("smp", "gni", "elan", "ibv", "ucx", "ofi", "udp", "mpi")


class Gasnet(MakefilePackage):
    """GASNet-EX, the communication layer of UPC++, Chapel, Berkeley UPC, Legion, Caffeine and
    others, implemented in Rust with the C interface of release 2025.8. It takes the place of
    Spack's package of this name, and has the variants that clients ask of that one."""

    homepage = "https://gasnet.lbl.gov"
    # No download page exists; the release comes from a mirror (docs/packages.md).
    manual_download = True

    license("MIT OR Apache-2.0")

    version("2025.8.0")

    variant(
        "conduits",
        values=any_combination_of(*CONDUITS).with_default(",".join(CONDUITS)),
        description="Networks to build for; gni opens libugni at run time, elan a shim, ibv libibverbs, ucx libucp, "
        "ofi libfabric, mpi any MPI",
    )
    for _mode in ("seq", "parsync", "par"):
        variant(_mode, default=True, description="Libraries of thread mode " + _mode.upper())
    variant(
        "segment",
        default="fast",
        values=("off", "fast", "large", "everything"),
        multi=False,
        description="Segment configuration of GASNet-1; off is fast",
    )
    variant("debug", default=False, description="Debug flavour, which checks arguments and states")
    variant("universal", default=True, description="Also build libgasnet, which chooses a conduit at start")
    for _part in ("pic", "pshm", "pthreads", "cuda", "rocm", "level_zero"):
        variant(_part, default=True, description="Always there; devices' libraries are opened at run time")
        conflicts("~" + _part, msg="libgasnet always has " + _part)
    for _devices in ("cuda_arch", "amdgpu_target"):
        variant(_devices, default="none", values=lambda _: True, multi=True, description="Makes no difference")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("rust@1.85:", type="build")
    depends_on("gmake", type="build")
    depends_on("binutils", type="build")

    conflicts("platform=darwin", msg="libgasnet is for Linux")
    conflicts("platform=windows", msg="libgasnet is for Linux")

    def modes(self):
        return [mode for mode in ("seq", "parsync", "par") if self.spec.variants[mode].value]

    def settings(self):
        """Makefile variables. CC and CXX are the compilers behind Spack's wrappers: the
        installation names them to clients."""
        values = self.spec.variants
        conduits = [name for name in CONDUITS if name in values["conduits"].value]
        segment = values["segment"].value
        return [
            "BUILD={0}".format(os.path.join(self.build_directory, "build")),
            "CONDUITS={0}".format(" ".join(conduits)),
            "MODES={0}".format(" ".join(self.modes())),
            "SEGMENT={0}".format("fast" if segment == "off" else segment),
            "UNIVERSAL={0}".format(int(values["universal"].value and bool(conduits))),
            "DEBUG={0}".format(int(values["debug"].value)),
            f"CC={self.compiler.cc}",
            f"CXX={self.compiler.cxx}",
            f"PREFIX={self.prefix}",
        ]

    def setup_build_environment(self, env):
        env.set("CARGO_HOME", os.path.join(self.stage.path, "cargo"))
        env.set("CARGO_NET_OFFLINE", "true")

    def build(self, spec, prefix):
        make(*self.settings())

    def install(self, spec, prefix):
        # Clients that configure a GASNet source tree themselves (the upcxx package) expect it in
        # prefix/src.
        source = os.path.join(prefix, "src")
        install_tree(self.build_directory, source, ignore=lambda path: path.split(os.sep)[0] in ("build", "target"))
        make("install", *self.settings())

    def setup_run_environment(self, env):
        env.prepend_path("PKG_CONFIG_PATH", os.path.join(self.prefix, "lib", "pkgconfig"))

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_installation(self):
        """Builds the example client and runs it on three ranks, if smp was built."""
        if "smp" not in self.spec.variants["conduits"].value or not self.modes():
            return
        with working_dir(os.path.join(self.build_directory, "examples", "client")):
            make("-B", "-f", "fragment.mk", f"GASNET_PREFIX={self.prefix}", f"MODE={self.modes()[0]}")
            Executable(os.path.join(self.prefix, "bin", "gasnetrun_smp"))("-n", "3", "./hello")
