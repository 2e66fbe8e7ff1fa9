# SPDX-License-Identifier: MIT OR Apache-2.0
"""Spack package of libgasnet. It builds offline, because the release of `make dist` contains the
crates."""

import os

from spack.package import *

try:
    from spack_repo.builtin.build_systems.makefile import MakefilePackage
except ImportError:
    pass  # before Spack 1.0, spack.package exports it


class Libgasnet(MakefilePackage):
    """GASNet-EX, the communication layer of UPC++, Chapel, Berkeley UPC, Legion, Caffeine and
    others, implemented in Rust with the C interface of release 2025.8."""

    homepage = "https://gasnet.lbl.gov"
    # No download page exists; the release comes from a mirror (docs/packages.md).
    manual_download = True

    license("MIT OR Apache-2.0")

    version("2025.8.0")

    variant(
        "conduits",
        default="smp,gni,elan,ibv,ucx,ofi,udp,mpi",
        values=("smp", "gni", "elan", "ibv", "ucx", "ofi", "udp", "mpi"),
        multi=True,
        description="Networks to build for; gni opens libugni at run time, elan a shim, ibv libibverbs, ucx libucp, "
        "ofi libfabric, mpi any MPI",
    )
    variant(
        "modes", default="seq,parsync,par", values=("seq", "parsync", "par"), multi=True, description="Thread modes"
    )
    variant(
        "segment",
        default="fast",
        values=("fast", "large", "everything"),
        multi=False,
        description="Segment configuration of GASNet-1",
    )
    variant("debug", default=False, description="Debug flavour, which checks arguments and states")
    variant("universal", default=True, description="Also build libgasnet, which chooses a conduit at start")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("rust@1.85:", type="build")
    depends_on("gmake", type="build")
    depends_on("binutils", type="build")

    conflicts("platform=darwin", msg="libgasnet is for Linux")
    conflicts("platform=windows", msg="libgasnet is for Linux")

    def settings(self):
        """Makefile variables. CC and CXX are the compilers behind Spack's wrappers: the
        installation names them to clients."""
        values = self.spec.variants
        return [
            "BUILD={0}".format(os.path.join(self.build_directory, "build")),
            "CONDUITS={0}".format(" ".join(sorted(values["conduits"].value))),
            "MODES={0}".format(" ".join(sorted(values["modes"].value))),
            "SEGMENT={0}".format(values["segment"].value),
            "UNIVERSAL={0}".format(int(values["universal"].value)),
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
        if "smp" not in self.spec.variants["conduits"].value:
            return
        mode = min(self.spec.variants["modes"].value)
        with working_dir(os.path.join(self.build_directory, "examples", "client")):
            make("-B", "-f", "fragment.mk", f"GASNET_PREFIX={self.prefix}", f"MODE={mode}")
            Executable(os.path.join(self.prefix, "bin", "gasnetrun_smp"))("-n", "3", "./hello")
