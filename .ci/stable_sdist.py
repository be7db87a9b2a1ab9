"""Write an sdist again with the time of SOURCE_DATE_EPOCH, no owner and the modes of files that everybody may read."""

import gzip
import os
import sys
import tarfile
from io import BytesIO
from pathlib import Path


def normalize(path: Path, moment: int) -> None:
    """Replace a tar.gz by one that depends only on the names, texts and kinds of its members, and on `moment`."""
    packed = BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as new:
        for member in sorted(old, key=lambda member: member.name):
            plain = tarfile.TarInfo(member.name)
            plain.type, plain.size, plain.mtime = member.type, member.size, moment
            plain.mode = 0o755 if member.isdir() else 0o644
            new.addfile(plain, old.extractfile(member))
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=moment))


if __name__ == "__main__":
    normalize(Path(sys.argv[1]), int(os.environ["SOURCE_DATE_EPOCH"]))
