"""Run one input again and print all about it: `PYTHONPATH=tests python -m fuzz SUBJECT NUMBER`."""

import sys
import tempfile
from pathlib import Path

from fuzz.inputs import Workshop


def main(name: str, number: str) -> None:
    """Try an input, and leave it in a folder if it breaks a rule."""
    with tempfile.TemporaryDirectory() as folder, Workshop(Path(folder), Path(".fuzz")) as workshop:
        found = workshop.try_input(name, int(number))
        print("\n".join(f"changed: {change}"[:1000] for change in workshop.changes))
        print("\n".join(map(str, found)) or "no rule is broken")
        for finding in found:
            kept = Path(".fuzz", f"{name.replace(' ', '-').replace(',', '')}-{number}", "stderr")
            print(kept.read_text(errors="replace")[-4000:], finding.violation)


if __name__ == "__main__":
    main(*sys.argv[1:])
