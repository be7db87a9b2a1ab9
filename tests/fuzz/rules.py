"""What every command line must keep to, whatever it is given."""

import json
import re
from collections.abc import Iterator

from warm.command import Ended

CODES = {0, 1, 2, 3, 130}
MOST_CPU_SECONDS = 5.0
MOST_MIB = 500.0
_TRACES = re.compile(
    r"Traceback \(most recent call last\)|this is a bug|Exception ignored in|was never (?:retrieved|awaited)"
    r"|Fatal Python error"
)
_FRAME = re.compile(r'File ".*?evalspec/(\S+?)\.py", line \d+, in (\S+)')
_RAISED = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception|Warning|Exit|Interrupt|Invalid))\b", re.MULTILINE)


def find_violations(ended: Ended, *, as_json: bool) -> Iterator[str]:
    """What is wrong with how a command line ended. The first word says which rule; alike defects have one text."""
    err = ended.err.decode("utf-8", "replace")
    if _TRACES.search(err) or _TRACES.search(ended.out.decode("utf-8", "replace")):
        yield f"traceback: {_name_traceback(err)}"
    if ended.is_late:
        yield "hang: it had to be killed"
    elif ended.code not in CODES:
        yield f"code: {ended.code}"
    if ended.cpu_seconds > MOST_CPU_SECONDS:
        yield "cpu: more than 5 s"
    if ended.peak_mib > MOST_MIB:
        yield "memory: more than 500 MiB"
    if as_json and ended.code in CODES:
        reason = _find_json_fault(ended.out)
        if reason:
            yield f"stdout: {reason} (exit code {ended.code})"


def _name_traceback(err: str) -> str:
    """The error and the deepest frame of our own: the same for all inputs that meet the same defect."""
    frames, raised = _FRAME.findall(err), _RAISED.findall(err)
    place = ":".join(frames[-1]) if frames else "no frame of evalspec"
    return f"{raised[-1] if raised else 'unknown'} at {place}"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _find_json_fault(out: bytes) -> str:
    try:
        json.loads(out.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError:
        return "not UTF-8"
    except ValueError:
        return "empty" if not out else "not one JSON document"
    except RecursionError:
        return "nested too deeply"
    return ""
