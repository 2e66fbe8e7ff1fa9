#!/usr/bin/env python3
"""style.py [--report] [--selftest] [FILE...]: the width of lines, and words that the project has
given up.

Code has at most 120 columns (Rust: what rustfmt.toml says), text at most 100: Markdown, the text of
manual pages, and lines that hold nothing but a comment. Tables, code blocks, lines with a link and
generated pages may be longer. Of .txt files only comments are text; their other lines are tables.

A retired word has a better one in the field (RETIRED below). Identifiers count: `KeeperThread` and
`keeper_thread` hold the word "keeper". style-allowed.txt lists where such a word means something
else. --report prints each place of a retired word even while WORDS_FAIL is off.
"""

import re
import subprocess
import sys
import tokenize
from pathlib import Path

# Whether a retired word is an error.
WORDS_FAIL = True

CODE, TEXT = 120, 100

# Files whose lines are not checked: generated, or quoted from elsewhere.
GENERATED = (
    "Cargo.lock",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "docs/abi-baseline.txt",
    "docs/api.md",
    "scripts/docs/api-spec.tsv",
    "docs/env.md",
    "docs/GASNet-EX.txt",
    "scripts/mutants/*.txt",
)
# Folders whose long lines are counted, but are no error.
LATER = ()

# (pattern, better words, paths). A pattern is compared with text in which `_`, `-` and the humps of
# camel case are spaces; it ignores case unless it has capitals. Paths: a pattern of the only files
# that it concerns, for words that are right elsewhere.
NETWORKS = r"^(conduit|emulators)"
COLLECTIVES = r"^src/(coll/|barrier|shm/)"
RETIRED = [
    (r"adopt(s|ed|ing|ion)?", "PMI bootstrap, rendezvous"),
    (r"bells?", "pending mask, wake-up eventfd"),
    (r"(the|a|of|job'?s?) boards?", "job control block"),
    (r"census", "job control block"),
    (r"company", "coalescing"),
    (r"consoles?", "launcher process"),
    (r"crowded|roomy", "oversubscribed, undersubscribed"),
    (r"dealt", "cyclic placement"),
    (r"glances?", "spin"),
    (r"gone\.rs", "graveyard, destroyed"),
    (r"heed(s|ed)?", "drain"),
    (r"keepers?", "progress thread"),
    (r"lent", "software NIC atomics, soft_atomics", r"^(src/ad/|src/rma/|conduit)"),
    (r"letters?", "p2p message", COLLECTIVES),
    (r"mail(box)?", "p2p message", COLLECTIVES),
    (r"news", "AckOutcome"),
    (r"passages?", "sequence number"),
    (r"patience", "RTO, timeout"),
    (r"sentences?", "message"),
    (r"speakers?", "leader"),
    (r"Spots?", "MemRef"),
    (r"strangers?", "unauthenticated peer"),
    (r"supervisors?", "node agent"),
    (r"welcomes?", "handshake"),
    (r"told|heard", "reported, notified, received"),
    (r"(is|are|was|were|be|been|being) said", "is printed"),
    (r"blanks", "spaces"),
    (r"board (results?|rounds?)", "job control block"),
    (r"am pieces", "segmented Long"),
    (r"so (many|much)", "a number with its name", NETWORKS),
    (r"attendants?", "connection thread", NETWORKS),
    (r"flights|landings?", "pending operations, rendezvous buffers", r"^conduit"),
    (r"Flights?|Gates?", "pending operation, maybe-locked", NETWORKS),
    (r"outbox", "reply buffers", NETWORKS),
    (r"fates?", "peer state", r"^conduit"),
    (r"seal(s|ed)?", "checksum", r"^conduit-ibv"),
]
# Openings of comments that hide the subject, and how many of 1,000 comment lines of a folder may
# have one.
OPENING = re.compile(r"(What|Who|Whom|Whose|Which|Where|How (many|much|far|long))\b")
OPENINGS = 20

HASH = (".py", ".sh", ".mk", ".toml", ".yml", ".cmake.in", "CMakeLists.txt", "Makefile", "configure", "Bootstrap")
HASH += ("rules", "arrange", "symbols")
SLASH = (".rs", ".c", ".cc", ".h", ".h.in")
SHELL = (".sh", "configure", "arrange")
LINK = re.compile(r"https?://|\]\(|^\s*\[[^]]*\]:")
# A comment that a program reads.
DIRECTIVE = re.compile(r"shellcheck |noqa|clang-format|[A-Z]{2,}: |!/")


def crate_of(path):
    """The folder of a crate, or the top folder of another file."""
    folder = re.match(r"(.+?)/(?:src|tests)/", path)
    return folder[1] if folder else path.partition("/")[0]


class Findings:
    """Lines that are too wide, retired words, and openings of comments."""

    def __init__(self, allowed):
        self.allowed = allowed
        self.wide, self.later, self.words = [], 0, []
        # By crate: comment lines, and comments that open badly.
        self.comments = {}

    def comment(self, path, body, opens):
        """A line of a comment; whether it is the first."""
        counts = self.comments.setdefault(crate_of(path), [0, 0])
        counts[0] += 1
        counts[1] += bool(opens and OPENING.match(body))

    def openings(self):
        """The crates with too many comments that open badly."""
        for folder, (lines, bad) in sorted(self.comments.items()):
            if bad * 1000 > OPENINGS * max(lines, 1000):
                yield f"{folder}: {bad} of {lines} comment lines open with What, Who, Which, Where or How many"

    def line_width(self, path, number, line, limit):
        """One line and its limit."""
        if len(line) <= limit:
            return
        if path.startswith(LATER):
            self.later += 1
        else:
            self.wide.append(f"{path}:{number}: {len(line)} columns; the limit is {limit}")

    def word(self, path, number, line):
        """The retired words of a line, or of a path (number 0)."""
        plain = spread(line)
        if not ANY.search(plain):
            return
        for (_, better, *where), pattern in zip(RETIRED, PATTERNS):
            found = pattern.search(plain) if not where or re.search(where[0], path) else None
            if found and not any(where.search(path) and what.search(line) for where, what in self.allowed):
                self.words.append((found[0].lower(), f"{path}:{number}: {found[0]!r}: {better}"))


PATTERNS = [re.compile(rf"\b(?:{pattern})\b", 0 if re.search("[A-Z]", pattern) else re.I) for pattern, *_ in RETIRED]
ANY = re.compile("|".join(pattern for pattern, *_ in RETIRED), re.I)


def spread(line):
    """A line with the parts of identifiers apart."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_-]", " ", line)


def docstrings(lines):
    """The numbers of the lines of Python that a string starts, up to that string's last line."""
    found, start = set(), True
    for token in tokenize.generate_tokens(iter([f"{line}\n" for line in lines]).__next__):
        if token.type == tokenize.STRING and start:
            found.update(range(token.start[0], token.end[0] + 1))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            start = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return found


def comments(path, lines):
    """For each line whether it is text: nothing but a comment, or in a docstring."""
    block, strings = False, docstrings(lines) if path.endswith(".py") else set()
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if number in strings:
            yield True
        elif path.endswith(HASH):
            yield text.startswith("#")
        elif path.endswith(SLASH):
            if block:
                yield not line.endswith("\\")
                block = "*/" not in line
            elif text.startswith("/*"):
                yield text.endswith("*/") or "*/" not in text
                block = "*/" not in text
            else:
                yield text.startswith("//")
        else:
            yield False


def markdown(path, lines, findings):
    """The lines of a page."""
    fence = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fence = not fence
        elif not fence and not line.startswith("    ") and not line.lstrip().startswith("|") and not LINK.search(line):
            findings.line_width(path, number, line, TEXT)


def manual(path, lines, findings):
    """The lines of a manual page. A list head (.It) cannot continue on the next line."""
    display = False
    for number, line in enumerate(lines, 1):
        if line.startswith((".Bd", ".nf", ".Ed", ".fi")):
            display = line.startswith((".Bd", ".nf"))
        if not line.startswith(".It"):
            findings.line_width(path, number, line, CODE if display or line.startswith(".") else TEXT)


def table(path, lines, findings):
    """The lines of a .txt file: comments, and a table."""
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            findings.line_width(path, number, line, TEXT)


def source(path, lines, findings, rust):
    """The lines of a program."""
    code = rust if path.endswith(".rs") else CODE
    fence = inside = False
    for number, (line, text) in enumerate(zip(lines, comments(path, lines)), 1):
        body = line.strip().lstrip("/!#*").strip()
        if text:
            findings.comment(path, body, not inside)
        inside = text and bool(body)
        if text and body.startswith("```"):
            fence = not fence
        elif not text:
            fence = False
        table = text and (fence or body.startswith("|") or LINK.search(body) or DIRECTIVE.match(body))
        # A shell cannot write one word on two lines.
        table = table or (path.endswith(SHELL) and re.search(r"'[^']{70,}|\"[^\"]{70,}", line))
        if not table:
            findings.line_width(path, number, line, TEXT if text else code)


def files(root):
    """Paths of the texts under version control; in an unpacked release, of all."""
    if (root / ".git").exists():
        command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    else:
        names = [str(p.relative_to(root)) for p in root.rglob("*")]
        names = [name for name in names if name.split("/")[0] not in ("build", "target", "vendor")]
    return sorted(name for name in names if name and (root / name).is_file() and not (root / name).is_symlink())


def read_allowed(path):
    """The lines of style-allowed.txt: a pattern of paths, spaces, and a pattern of lines."""
    lines = (line for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return [tuple(re.compile(part) for part in line.split(None, 1)) for line in lines]


def selftest():
    """Small texts whose findings are known."""

    def found(path, text):
        findings = Findings([(re.compile("^a"), re.compile("small company"))])
        lines = text.split("\n")
        if path.endswith(".md"):
            markdown(path, lines, findings)
        elif path.endswith(".3"):
            manual(path, lines, findings)
        elif path == "a.txt":
            table(path, lines, findings)
        else:
            source(path, lines, findings, CODE)
        for number, line in enumerate(lines, 1):
            findings.word(path, number, line)
        return [line.split(":")[1] for line in findings.wide], [word for word, _ in findings.words]

    findings = Findings([])
    source("a/b/src/c.rs", ["// Who", "// Which", "x", "/// Whether", "x", "// What"], findings, CODE)
    assert findings.comments == {"a/b": [4, 2]}
    findings.comments = {"a": [1000, 20], "b": [1000, 21], "c": [100, 21]}
    assert [line[0] for line in findings.openings()] == ["b", "c"]
    wide, text = "x" * 121, "y " * 51
    assert found("a.md", f"{text}\n| {text}\n```\n{text}\n```\n[a](b) {text}\n{text}") == (["1", "7"], [])
    assert found("a.py", f'"""{text}\n{text}"""\n# {text}\nx = "{text}"\n{wide}') == (["1", "2", "3", "5"], [])
    assert found("a.c", f"/* {text}\n {text} */\n// {text}\nint {text};\n{wide}") == (["1", "2", "3", "5"], [])
    page = f".It {wide}\n{text}\n.Bd\n{text}\n.Ed\n.Dv {text}\n.Dv {wide}"
    assert found("a.3", page) == (["2", "7"], [])
    assert found("a.txt", f"# {text}\n{wide}") == (["1"], [])
    assert found("a.sh", f"# shellcheck disable {text}\n# | {text}\n# {text}") == (["3"], [])
    assert found("a.rs", "KeeperThread keeper_thread\nbeekeeper\na small company\nis said") == (
        [],
        ["keeper", "is said"],
    )
    assert found("a.rs", "Spot\nspot\nthe letters") == ([], ["spot"])
    assert found("src/coll/a.rs", "Spot\nspot\nthe letters") == ([], ["spot", "letters"])


def main():
    options = [argument for argument in sys.argv[1:] if argument.startswith("--")]
    names = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    if set(options) - {"--report", "--selftest"}:
        sys.exit(__doc__.splitlines()[0])
    if "--selftest" in options:
        return selftest()
    here = Path(__file__).resolve().parent
    root = next(parent for parent in here.parents if (parent / "Cargo.lock").is_file())
    rust = int(re.search(r"^max_width = (\d+)", (root / "rustfmt.toml").read_text(), re.M)[1])
    findings = Findings(read_allowed(here / "style-allowed.txt"))
    for name in names or files(root):
        if name.endswith(("style.py", "style-allowed.txt")):
            continue
        try:
            lines = (root / name).read_text().splitlines()
        except UnicodeDecodeError:
            continue
        if not any(Path(name).match(pattern) for pattern in GENERATED):
            if name.endswith(".md"):
                markdown(name, lines, findings)
            elif name.startswith("docs/man/"):
                manual(name, lines, findings)
            elif name.endswith(".txt") and not name.endswith(HASH):
                table(name, lines, findings)
            elif name.endswith(HASH + SLASH):
                source(name, lines, findings, rust)
        if not name.startswith("LICENSE"):
            for number, line in enumerate([name, *lines]):
                findings.word(name, number, line)
    for line in findings.wide:
        print(line)
    if findings.later:
        print(f"style: {findings.later} more wide lines in {' '.join(LATER)}")
    if findings.words:
        if "--report" in options or WORDS_FAIL:
            for _, line in findings.words:
                print(line)
        counts = {}
        for word, _ in findings.words:
            counts[word] = counts.get(word, 0) + 1
        most = sorted(counts.items(), key=lambda item: -item[1])
        print(f"style: {len(findings.words)} retired words: {', '.join(f'{word} {n}' for word, n in most)}")
    openings = list(findings.openings())
    print(*openings, sep="\n", end="\n" if openings else "")
    if findings.wide or openings or (WORDS_FAIL and findings.words):
        sys.exit(1)


if __name__ == "__main__":
    main()
