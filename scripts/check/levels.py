"""levels.py [--report] [--selftest] [ROOT]: modules of a crate use only modules of their own level
or a lower one.

The levels of a crate stand in ARCHITECTURE.md, in a fenced block under a heading that names its
folder of sources:

    ## Levels of conduit-ibv/src/

    ```levels
    types flags sync        # the lowest level; a comment ends the line
    segment::create trace *
    runtime
    ```

One line is one level, lowest first, and lists module paths. Of a path the longest prefix in the
block counts. Modules of one line may use each other only where the line ends with `*`. A module may
always use itself and what is below it in the same entry. The crate's root (lib.rs) may use
everything. Test code is not looked at: `#[cfg(test)]` items and the files of such modules.

--report prints the upward uses and succeeds.
"""

import re
import sys
from pathlib import Path

HEADING = re.compile(r"^## Levels of (\S+)/$", re.M)
BLOCK = re.compile(r"^```levels\n(.*?)^```$", re.M | re.S)


def blocks(text):
    """Each folder of sources that ARCHITECTURE.md has a heading for, and its block, or None."""
    _, *parts = HEADING.split(text)
    for folder, section in zip(parts[::2], parts[1::2]):
        block = BLOCK.search(section.split("\n## ")[0])
        yield folder, block and block[1]


class Levels:
    """A block of ARCHITECTURE.md: the level of each entry, and the levels whose modules may use
    each other."""

    def __init__(self, text):
        self.level, self.mutual, self.errors = {}, set(), []
        lines = (line.split("#")[0].split() for line in text.splitlines())
        for number, entries in enumerate(entries for entries in lines if entries):
            if entries[-1] == "*":
                self.mutual.add(number)
                entries = entries[:-1]
            for entry in entries:
                if entry in self.level:
                    self.errors.append(f"{entry} is listed twice")
                self.level[entry] = number

    def entry(self, path):
        """The longest prefix of a module path (a tuple of names) that is listed, or None."""
        for length in range(len(path), 0, -1):
            if (entry := "::".join(path[:length])) in self.level:
                return entry
        return None

    def allowed(self, user, used):
        """Whether entry `user` may use entry `used`."""
        if user == used or self.level[used] < self.level[user]:
            return True
        return self.level[used] == self.level[user] and self.level[user] in self.mutual


TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*)
      | (?P<block>/\*)
      | (?P<raw>\b(?:br|cr|r)(?P<hashes>\#*)"(?:.|\n)*?"(?P=hashes))
      | (?P<string>\b[bc]?"(?:[^"\\]|\\(?:.|\n))*"|"(?:[^"\\]|\\(?:.|\n))*")
      | (?P<char>b?'(?:[^'\\\n]|\\(?:[^u]|u\{[0-9a-fA-F_]+\}|x[0-9a-fA-F]{2}))')""",
    re.X,
)


def blank(text):
    """Spaces in the place of `text`, with its line ends."""
    return re.sub(r"[^\n]", " ", text)


def without_text(source):
    """Rust source with comments and literals blanked."""
    out, at = [], 0
    while found := TOKEN.search(source, at):
        end = found.end()
        if found["block"]:
            depth = 1
            while depth and (mark := re.compile(r"/\*|\*/").search(source, end)):
                depth += 1 if mark[0] == "/*" else -1
                end = mark.end()
            if depth:
                end = len(source)
        out += [source[at : found.start()], blank(source[found.start() : end])]
        at = end
    return "".join([*out, source[at:]])


def closing(source, at, pairs="{}"):
    """The position after the bracket that closes the one at `at`."""
    depth = 0
    for position in range(at, len(source)):
        depth += (source[position] == pairs[0]) - (source[position] == pairs[1])
        if depth == 0:
            return position + 1
    return len(source)


TEST = re.compile(r"#\[cfg\(\s*(?:test\s*\)|all\(\s*test\b)")


def without_tests(source):
    """Overwrites with spaces each item after `#[cfg(test)]`. Also returns the names of the modules
    in files among them."""
    files = []
    while found := TEST.search(source):
        at = closing(source, found.start() + 1, "[]")
        while attribute := re.compile(r"\s*#\[").match(source, at):
            at = closing(source, attribute.end() - 1, "[]")
        # An item ends with its braces or a semicolon; brackets and parentheses (array types,
        # arguments) are passed over.
        end = at
        while end < len(source) and source[end] not in "{;":
            pair = {"(": "()", "[": "[]"}.get(source[end])
            end = closing(source, end, pair) if pair else end + 1
        item = source[at:end]
        if source[end : end + 1] == "{":
            end = closing(source, end)
            # `use a::{b, c};`, `const X: T = T { … };`
            if re.match(r"\s*(?:pub(?:\([^)]*\))?\s+)?(?:use|const|static|let)\b", item):
                end = source.find(";", end) + 1 or len(source)
        else:
            end += 1
            if module := re.search(r"\bmod\s+(\w+)\s*$", item):
                files.append(module[1])
        source = source[: found.start()] + blank(source[found.start() : end]) + source[end:]
    return source, files


WORD = re.compile(r"\s*(?:r#)?(\w+)")
STEP = re.compile(r"\s*::\s*")


def leaves(source, at):
    """The paths, as tuples of names, that a path or a tree of a `use` declaration names from `at`
    on."""
    if re.compile(r"\s*\{").match(source, at):
        start = source.index("{", at)
        at, end, found = start + 1, closing(source, start), []
        while at < end - 1:
            found += leaves(source, at)
            # To the comma at this depth.
            while at < end - 1 and source[at] != ",":
                at = closing(source, at) if source[at] == "{" else at + 1
            at += 1
        return found
    word = WORD.match(source, at)
    if not word:
        return [()]
    if word[1] == "self":
        return [()]
    if not (step := STEP.match(source, word.end())):
        return [(word[1],)]
    return [(word[1], *rest) for rest in leaves(source, step.end())]


MODULE = re.compile(r"\bmod\s+(\w+)\s*([{;])")


def uses(source, path):
    """(position, module path as a tuple) of everything in this crate that the source of module
    `path` names by a path."""
    # Inline modules, to resolve `self` and `super` inside.
    inner = [
        (found.start(), closing(source, found.end() - 1), found[1])
        for found in MODULE.finditer(source)
        if found[2] == "{"
    ]
    children = [found[1] for found in MODULE.finditer(source)]
    heads = r"(?<![\w:])(?:crate|self|super)(?=\s*::)"
    if children:
        heads += r"|(?<![\w:.])(?:" + "|".join(children) + r")(?=\s*::)"
    for found in re.finditer(heads, source):
        before = source[: found.start()].rstrip()
        if re.search(r"\bin$", before):
            continue  # pub(in crate::…)
        here = [*path, *(name for start, end, name in inner if start < found.start() < end)]
        at, head = found.end(), found[0]
        if head == "crate":
            base = []
        elif head in ("self", "super"):
            base = here if head == "self" else here[:-1]
            while step := re.compile(r"\s*::\s*super\b").match(source, at):
                base, at = base[:-1], step.end()
        else:
            base = [*here, head]
        if step := STEP.match(source, at):
            for leaf in leaves(source, step.end()):
                yield found.start(), (*base, *leaf)


def modules(root, folder):
    """Module path (a tuple of names) → (file, source without comments, literals and tests), of
    every file below a folder of sources."""
    found, tests = {}, set()
    for file in sorted((root / folder).rglob("*.rs")):
        path = file.relative_to(root / folder).with_suffix("").parts
        path = path[:-1] if path[-1] in ("mod", "lib") else path
        source, test_files = without_tests(without_text(file.read_text()))
        tests |= {(*path, name) for name in test_files}
        found[path] = (file.relative_to(root), source)
    return {
        path: where
        for path, where in found.items()
        if not any(path[: length + 1] in tests for length in range(len(path)))
    }


def check(levels, files):
    """Sorted lines about upward uses, and lines about defects of the list itself."""
    upward, errors = [], list(levels.errors)
    tops = {path[0] for path in files if path}
    names = {"::".join(path[:length]) for path in files for length in range(1, len(path) + 1)}
    # A module may be in its parent's file.
    for path, (_, source) in files.items():
        names |= {"::".join((*path, found[1])) for found in MODULE.finditer(source)}
    errors += [f"{entry} is listed, but is no module" for entry in levels.level if entry not in names]
    for path, (file, source) in files.items():
        if not path:
            continue
        user = levels.entry(path)
        if user is None:
            errors.append(f"{'::'.join(path)} ({file}) has no level")
            continue
        seen = set()
        for position, used_path in uses(source, path):
            if not used_path or used_path[0] not in tops:
                continue  # an item of the root, a macro
            used = levels.entry(used_path)
            if used is None or levels.allowed(user, used) or (user, used, used_path) in seen:
                continue
            seen.add((user, used, used_path))
            line = source.count("\n", 0, position) + 1
            kind = "same level" if levels.level[user] == levels.level[used] else "upward"
            upward.append(f"{file}:{line}: {user} uses {'::'.join(used_path)} ({kind}: {user} -> {used})")
    return sorted(upward), errors


def selftest():
    """Small sources whose edges are known."""
    source = r"""
        use crate::{a, b::{self, c::D as E}, r#f};
        use crate::g::*;
        // use crate::comment;
        /* use crate::block; /* nested */ use crate::block2; */
        fn f<'x>(s: &'x str) { let c = '"'; let t = "crate::string";
            let r = r#"crate::raw "quoted" "#; $crate::h::mac();
        }
        pub(in crate::visible) fn v() { super::s::t(); self::u::w::<u8>(); }
        mod child { use super::super::z; }
        mod file;
        use file::Thing;
        #[cfg(test)]
        #[allow(unused)]
        mod tests { use crate::test_only; fn b() { { } } }
        #[cfg(test)] use crate::test_use::{x, y};
        #[cfg(test)] fn array() -> [u8; 3] { crate::test_fn::x() }
        #[cfg(test)] mod test_file;
        use crate::last;
    """
    clean, files = without_tests(without_text(source))
    found = sorted("::".join(path) for _, path in uses(clean, ("p", "q")))
    expected = ["a", "b", "b::c::D", "f", "g", "h::mac", "last", "p::q::file::Thing", "p::q::u::w", "p::s::t", "p::z"]
    assert found == expected, found
    assert files == ["test_file"], files
    assert clean.count("\n") == source.count("\n")
    levels = Levels("low # the lowest\nx y::z *\nx2 y2\ntop\n")
    assert levels.entry(("y", "z", "w")) == "y::z" and levels.entry(("y",)) is None
    assert levels.allowed("x", "y::z") and not levels.allowed("x2", "y2") and not levels.allowed("low", "top")
    files = {
        ("low",): ("low.rs", "use crate::top::x;\nuse crate::x2;"),
        ("top",): ("top.rs", "use crate::low;"),
        ("x2",): ("x2.rs", "use crate::y2;"),
        ("y2",): ("y2.rs", ""),
    }
    upward, errors = check(Levels("low\nx2 y2\ntop\nnone"), files)
    assert [line.split(": ")[0] for line in upward] == ["low.rs:1", "low.rs:2", "x2.rs:1"], upward
    assert errors == ["none is listed, but is no module"], errors
    text = "## Levels of src/\n```levels\na\n```\n## Levels of x/src/\n## Next\n```levels\nb\n```\n"
    assert list(blocks(text)) == [("src", "a\n"), ("x/src", None)], list(blocks(text))


def main():
    options = [argument for argument in sys.argv[1:] if argument.startswith("--")]
    places = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    if set(options) - {"--report", "--selftest"} or len(places) > 1:
        sys.exit(__doc__.splitlines()[0])
    if "--selftest" in options:
        return selftest()
    root = (
        Path(places[0]) if places else next(p for p in Path(__file__).resolve().parents if (p / "Cargo.lock").is_file())
    )
    upward, errors, crates = [], [], dict(blocks((root / "ARCHITECTURE.md").read_text()))
    if "src" not in crates:
        errors.append('ARCHITECTURE.md has no "## Levels of src/"')
    for folder, block in crates.items():
        if block is None:
            errors.append(f'ARCHITECTURE.md has no ```levels block under "## Levels of {folder}/"')
            continue
        more_upward, more_errors = check(Levels(block), modules(root, folder))
        upward += more_upward
        errors += [f"{folder}: {error}" for error in more_errors]
    for line in [*errors, *upward]:
        print(line)
    if upward:
        edges = {line.rsplit("(", 1)[1] for line in upward}
        print(f"levels: {len(upward)} uses of a module that is not below, {len(edges)} pairs of modules")
    if (upward or errors) and "--report" not in options:
        sys.exit(1)


if __name__ == "__main__":
    main()
