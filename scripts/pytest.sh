# Sourced by scripts that run gasnet-compat-tests; ROOT is the source tree.

# tests FOLDER|OPTION...: pytest in gasnet-compat-tests; Debian's, or that of the Python on PATH.
tests() {
    _pytest=$(command -v pytest-3 || echo "python3 -B -m pytest")
    # Not in a folder with settings of pytest, which require a library.
    if ! (cd / && $_pytest -p xdist --version) >/dev/null 2>&1; then
        echo "SKIP gasnet-compat-tests: python3-pytest or python3-pytest-xdist is not installed"
        return
    fi
    (cd "$ROOT/gasnet-compat-tests" && $_pytest "$@")
}

# families: folders of C and C++ programs, without those whose programs are started by tests in
# Python.
families() {
    (cd "$ROOT/gasnet-compat-tests" && for _family in */; do
        ls "$_family"test_*.py >/dev/null 2>&1 || echo "$_family"
    done)
}
