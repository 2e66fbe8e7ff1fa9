"""prototypes.py INCLUDE CONDUIT_INCLUDE CBINDGEN CC EXPANDED...: exports have the headers' types.

EXPANDED are the sources of the Rust crates after macro expansion. Their exported functions, without
bodies, go through cbindgen, and the C prototypes are compiled in one unit with the headers: a wrong
signature is a compile error. Both sides lose `const` and `volatile`, which have no meaning for the
ABI (handles are pointers to const in Rust), and `uint8_t *` becomes `void *`. TYPES has the names
that the headers have for types of Rust. An export that no header declares is for the marker object
or inline code, and has their prefix.
"""

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HEADERS = [
    "gasnetex.h",
    "gasnet.h",
    "gasnet_coll.h",
    "gasnet_vis.h",
    "gasnet_ratomic.h",
    "gasnet_mk.h",
    "gasnet_tools.h",
]

# Types of Rust in signatures, and what the headers call them.
TYPES = {
    "AmEntry": "gex_AM_Entry_t",
    "Arg": "gex_AM_Arg_t",
    "Args": "gex_MK_Create_args_t",
    "Client": "struct gasneti_client_s",
    "CollTeam": "gasnet_team_handle_t",
    "Domain": "struct gasneti_ad_s",
    "Endpoint": "struct gasneti_ep_s",
    "EpIndex": "gex_EP_Index_t",
    "EpLocation": "gex_EP_Location_t",
    "Event": "gex_Event_t",
    "Flags": "gex_Flags_t",
    "GasnetMemvec": "gasnet_memvec_t",
    "HandlerEntry": "gasnet_handlerentry_t",
    "Hsl": "gex_HSL_t",
    "JobRank": "gex_Rank_t",
    "KindHandle": "gex_MK_t",
    "LcOpt": "gex_Event_t *",
    "Memvec": "gex_Memvec_t",
    "NodeInfo": "gasnet_nodeinfo_t",
    "pthread_cond_t": "gasnett_cond_t",
    "pthread_mutex_t": "gasnett_mutex_t",
    "pthread_rwlock_t": "gasnett_rwlock_t",
    "ProgressThreadInfo": "gex_ProgressThreadInfo_t",
    "Rank": "gex_Rank_t",
    "RankInfo": "gex_RankInfo_t",
    "SegInfo": "gasnet_seginfo_t",
    "Segment": "struct gasneti_segment_s",
    "SrcDesc": "struct gasneti_srcdesc_s",
    "Stats": "gasnett_heapstats_t",
    "TeamHandle": "gex_TM_t",
    "Token": "struct gasneti_token_s",
    "TokenInfo": "gex_Token_Info_t",
    "UserFn": "gex_Coll_ReduceFn_t",
    "ValueGet": "struct gasneti_valget_s",
}

# Exports whose prototype differs from the header's, with the reason.
EXCEPTIONS = {}

# With the name of `export_name`, if it has one.
EXPORT = re.compile(
    r'#\[(?:no_mangle|export_name\s*=\s*"(\w+)")\]\s*(?:#\[[^\]]*\]\s*)*'
    r'pub\s+(?:unsafe\s+)?extern\s+"C(?:-unwind)?"\s+fn\s+(\w+)\s*\('
)

# Settings of cbindgen, which takes each type as it stands.
CONFIG = """language = "C"
no_includes = true
usize_is_size_t = true
[export]
item_types = ["functions"]
"""


def signatures(text):
    """Name and signature, without the body, of each export."""
    for match in EXPORT.finditer(text):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        parameters = re.sub(r"(^|, )mut ", r"\1", " ".join(text[match.end() : end - 1].split()))
        result = re.match(r"\s*(->\s*[^{]*?)?\s*\{", text[end:]).group(1) or ""
        signature = re.sub(r"(?:\w+::)+(\w+)", r"\1", f"({parameters}) {' '.join(result.split())}")
        yield match.group(1) or match.group(2), signature.replace("Option<UserFn>", "UserFn")


def prototypes(cbindgen, sources, folder):
    """The C prototypes of all exports, as text."""
    rust = folder / "exports.rs"
    (folder / "cbindgen.toml").write_text(CONFIG)
    names, lines = set(), []
    for source in sources:
        for name, signature in signatures(Path(source).read_text()):
            names.add(name)
            if name not in EXCEPTIONS:
                lines.append(f'#[no_mangle] pub unsafe extern "C" fn {name}{signature} {{ loop {{}} }}')
    rust.write_text("\n".join(lines) + "\n")
    command = [cbindgen, "--quiet", "--config", folder / "cbindgen.toml", rust]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if unknown := [name for name in EXCEPTIONS if name not in names]:
        sys.exit(f"prototypes: exceptions that are not exported: {' '.join(unknown)}")
    if missing := [name for name in names if name not in EXCEPTIONS and not re.search(rf"\b{name}\(", text)]:
        sys.exit(f"prototypes: cbindgen left out {' '.join(sorted(missing))}")
    return text, names - EXCEPTIONS.keys()


def main(include, conduit_include, cbindgen, cc, *sources):
    """Compiles headers and prototypes together."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        # The headers are expanded on their own: some of their macros have the names of functions.
        headers = "".join(f"#include <{header}>\n" for header in HEADERS)
        flags = ["-DGASNET_PAR", "-DGASNET_DEBUG", "-D_GNU_SOURCE", f"-I{include}", f"-I{conduit_include}"]
        command = [*cc.split(), "-E", "-P", "-x", "c", "-", *flags]
        expanded = subprocess.run(command, input=headers, check=True, capture_output=True, text=True).stdout
        text, names = prototypes(cbindgen, sources, folder)
        text = re.sub(r"\buint8_t \*", "void *", text)
        text = re.sub(r"\w+", lambda word: TYPES.get(word[0], word[0]), text)
        undeclared = [name for name in names if not re.search(rf"\b{name}\b\)?\s*\(", expanded)]
        if foreign := [name for name in undeclared if not re.match(r"_?gasnett?[ice]_", name)]:
            sys.exit(f"prototypes: no header declares {' '.join(sorted(foreign))}")
        unit = folder / "unit.c"
        unit.write_text(re.sub(r"\b(const|volatile)\b", "", expanded + text))
        run = subprocess.run([*cc.split(), "-fsyntax-only", "-w", unit], capture_output=True, text=True)
        if run.returncode != 0:
            print(run.stderr.replace(str(folder) + "/", ""), file=sys.stderr)
            sys.exit("prototypes: exports differ from the headers")
        print(f"{len(names) - len(undeclared)} exports have the types of the headers, {len(undeclared)} are internal")


main(*sys.argv[1:])
