"""The program of most tests of how jobs end."""

import os

import pytest


@pytest.fixture
def exit_cases(shop):
    """A program that ends as its first argument requests."""
    return shop.compile(f"{os.path.dirname(__file__)}/exit_cases.c")
