"""Renders a recipe by rattler-build: conda_recipe.py FOLDER."""

import pathlib
import sys

from rattler_build import Stage0Recipe, VariantConfig

folder = pathlib.Path(sys.argv[1])
variants = Stage0Recipe.from_file(folder / "recipe.yaml").render(VariantConfig.from_file(folder / "variants.yaml"))
if not variants:
    sys.exit("this machine is left out")
for variant in variants:
    print(variant.recipe.to_dict())
