"""Write the protocol's files as clients in other languages compile them: of TensorFlow's package, with its service.

python tools/gen_client_protocol.py            write clients/protocol/tensorflow_master/*.proto
python tools/gen_client_protocol.py --check    exit 1 when one is out of date
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "dtfctl" / "protocol"
TARGET = ROOT / "clients" / "protocol" / "tensorflow_master"
FIRST = "master.proto"
_HEAD = "// Made by tools/gen_client_protocol.py of dtfctl/protocol; do not edit.\n"
_IMPORT = re.compile(r'^import "dtfctl/protocol/(\w+\.proto)";', re.MULTILINE)
_REQUEST = re.compile(r"^message (\w+)Request\b", re.MULTILINE)


def published() -> dict[str, str]:
    """Give the file of the service and all that it imports, by their names."""
    found: dict[str, str] = {}
    left = [FIRST]
    while left:
        name = left.pop()
        if name not in found:
            text = (SOURCE / name).read_text()
            left += _IMPORT.findall(text)
            text = _IMPORT.sub(rf'import "{TARGET.name}/\1";', text).replace("package dtf;", "package tensorflow;")
            found[name] = _HEAD + text
    found[FIRST] += _service(found[FIRST])
    return found


def _service(text: str) -> str:
    calls = "".join(f"  rpc {name}({name}Request) returns ({name}Response);\n" for name in _REQUEST.findall(text))
    return f"\nservice MasterService {{\n{calls}}}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    files = published()
    if not parser.parse_args().check:
        TARGET.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (TARGET / name).write_text(text)
        return 0
    there = {path.name: path.read_text() for path in TARGET.glob("*.proto")}
    stale = sorted(name for name in files.keys() | there.keys() if files.get(name) != there.get(name))
    if stale:
        print(f"out of date, run python tools/gen_client_protocol.py: {', '.join(stale)}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
