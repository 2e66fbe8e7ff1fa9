#!/usr/bin/env python3
"""Reads a Spack recipe without Spack: spack_recipe.py PACKAGE.PY SOURCES. A stand-in for
spack.package records what the recipe declares and what it asks of make; every variable that it sets
must be one of the makefile's, every value of a variant one that the build accepts, and `make -n`
must take the command. It does not show that Spack itself accepts the recipe."""

import os
import re
import runpy
import subprocess
import sys
import types

MADE = []


class Combination(tuple):
    """Stands in for what any_combination_of returns: the values, and those that are the default."""

    def with_default(self, values):
        self.default = values
        return self


class Package:
    """Stands in for MakefilePackage: an instance has the defaults of every variant."""

    variants = {}

    def __init__(self, sources):
        values = {name: types.SimpleNamespace(value=default(options)) for name, options in self.variants.items()}
        self.spec = types.SimpleNamespace(variants=values)
        self.compiler = types.SimpleNamespace(cc="/usr/bin/cc", cxx="/usr/bin/c++")
        self.build_directory, self.prefix = sources, "/spack/prefix"
        self.stage = types.SimpleNamespace(path="/spack/stage")


def default(options):
    """The value that Spack would pass: a tuple for variants with several values."""
    value = options["default"]
    return tuple(value.split(",")) if options.get("multi") else value


def stand_in():
    """The module spack.package, as far as the recipe uses it."""
    module = types.ModuleType("spack.package")

    def variant(name, **options):
        if isinstance(options.get("values"), Combination):
            options.update(default=options["values"].default, multi=True)
        Package.variants[name] = options

    def decorator(*_, **__):
        return lambda function: function

    def nothing(*_, **__):
        return None

    module.MakefilePackage = Package
    module.variant = variant
    module.any_combination_of = lambda *values: Combination(values)
    module.make = lambda *arguments: MADE.append(list(arguments))
    module.run_after = module.on_package_attributes = decorator
    for name in ("version", "depends_on", "conflicts", "license", "install_tree", "working_dir", "Executable"):
        setattr(module, name, nothing)
    return module


def main():
    recipe, sources = sys.argv[1:]
    spack = types.ModuleType("spack")
    spack.package = stand_in()
    sys.modules.update({"spack": spack, "spack.package": spack.package})
    classes = [
        c
        for c in runpy.run_path(recipe).values()
        if isinstance(c, type) and issubclass(c, Package) and c is not Package
    ]
    package = classes[0](sources)
    package.build(package.spec, package.prefix)
    package.install(package.spec, package.prefix)
    with open(os.path.join(sources, "Makefile")) as file:
        known = set(re.findall(r"^([A-Z]+)\s*(?:[:?]?=)|^override ([A-Z]+)", file.read(), re.M))
    known = {name for pair in known for name in pair if name}
    with open(os.path.join(sources, "scripts/common.sh")) as file:
        common = file.read()
    wrong = []
    for arguments in MADE:
        wrong += [
            f"no variable {word}"
            for word in arguments
            if "=" in word and word.split("=")[0] not in known | {"CC", "CXX", "DEBUG"}
        ]
        run = subprocess.run(["make", "-n", "-C", sources, *arguments], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            wrong.append(run.stderr)
    wrong += [
        f"no segment configuration {value}"
        for value in Package.variants["segment"]["values"]
        if value != "off" and f"{value})" not in common.replace(" |", ")")
    ]
    command = [os.path.join(sources, "scripts/build/conduits.sh")]
    present = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    if set(Package.variants["conduits"]["values"]) != present:
        wrong.append(f"the variant conduits must be {sorted(present)}")
    if wrong or len(MADE) != 2:
        sys.exit("\n".join(wrong) or f"make was called {len(MADE)} times")
    print("; ".join("make " + " ".join(arguments) for arguments in MADE))


if __name__ == "__main__":
    main()
