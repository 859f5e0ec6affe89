"""Regenerate dtfctl/protocol/*_pb2.py and *.pyi from the .proto files beside them.

usage: python tools/gen_protos.py [--check]

--check regenerates into a temporary folder, compares with what is committed and exits 1 when they differ.
"""

from __future__ import annotations

import argparse
import filecmp
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTOCOL = Path("dtfctl/protocol")


def generate(out: Path) -> None:
    sources = sorted(str(p.relative_to(ROOT)) for p in (ROOT / PROTOCOL).glob("*.proto"))
    include = Path(protoc.__file__).parent / "_proto"
    code = protoc.main(["protoc", f"-I{ROOT}", f"-I{include}", f"--python_out={out}", f"--pyi_out={out}", *sources])
    if code:
        raise SystemExit(f"protoc failed with exit code {code}")


def stale_files(fresh: Path) -> list[str]:
    names = {p.name for folder in (fresh / PROTOCOL, ROOT / PROTOCOL) for p in folder.glob("*_pb2.py*")}
    return sorted(
        name
        for name in names
        if not (fresh / PROTOCOL / name).exists()
        or not (ROOT / PROTOCOL / name).exists()
        or not filecmp.cmp(fresh / PROTOCOL / name, ROOT / PROTOCOL / name, shallow=False)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        generate(ROOT)
        return 0
    with tempfile.TemporaryDirectory() as tmp:
        generate(Path(tmp))
        stale = stale_files(Path(tmp))
    if stale:
        print(f"out of date, run python tools/gen_protos.py: {', '.join(stale)}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
