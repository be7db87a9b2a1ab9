"""Texts that try to act wherever they are shown, and readers that notice when one does."""

import re
import unicodedata

HOSTILE = {
    "csi": "\x1b[2J\x1b[31mowned",
    "osc8": "\x1b]8;;https://x.invalid\x1b\\click\x1b]8;;\x1b\\",
    "osc52": "\x1b]52;c;b3duZWQ=\x07",
    "carriage return": "all is well\rowned",
    "backspace": "FAIL\b\b\b\bPASS",
    "bell": "\aowned",
    "c1": "\x9b31m\x9d0;owned\x9c\x85::error::owned",
    "override": "\u202egnp.exe\u202c",
    "isolates": "\u2067a\u2066b\u2069\u2068c\u2069\u061c",
    "zero width": "a\u200bb\u200cc\ufeffd\u2060e\xadf\u180e",
    "tags": "a\U000e0041\U000e007f",
    "line separators": "a\u2028::error::owned\u2029##[error]owned",
    "command": "::error file=a.py,line=1::owned",
    "indented command": " \t\xa0::add-mask::e",
    "lines of commands": "x\n::error::owned\r\n  ::set-output name=verdict::PASS\r::stop-commands::x\n##[add-mask]e",
    "older command": "see ##[error]owned ##[add-mask]e ##vso[task.setvariable variable=a]b ##teamcity[x]",
    "percent": "%0A::error::owned%0D%25",
    "output": "x\nverdict=PASS\nmetrics<<EOF\nowned\nEOF",
    "script": "</script></style><!-- ]]> --><script>alert(1)</script><img src=x onerror=alert(2)>",
    "url": "javascript:alert(1)",
    "equals": '=HYPERLINK("http://x.invalid","click")',
    "plus": "+1+cmd|' /C calc'!A0",
    "minus": "-1+1",
    "at": "@SUM(A1)",
    "tab": "\t=1+1",
    "markdown": "[a](javascript:alert(1)) ![b](https://x.invalid/a.png) **c** `d` ``e | <b>f</b> @team #12\n# g\n- h",
    "not in xml": "a\x00b\x0bc\ufffed\uffffe",
    "surrogates": "\ud800a\udfff",
    "long": "x" * 10_000,
}

_JOINERS = "\u200c\u200d"


def steering(text: str) -> str:
    """The characters of an output that could steer a terminal, or the order of a line; also those that UTF-8 lacks."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(c for c in text if unicodedata.category(c) in kinds and c not in f"\n\t{_JOINERS}")


def commands(text: str) -> list[str]:
    """The names of the commands that a runner of GitHub Actions would take from an output, and of Azure Pipelines.

    As ActionCommand.cs of actions/runner does, but whatever the command is called.
    """
    lines = (line.strip() for line in re.split(r"\r\n|\r|\n", text))
    found = (re.match(r"::([^\s:]*).*?::", line) or re.search(r"##(?:vso|teamcity)?\[([^\]]*)", line) for line in lines)
    return [match[1] for match in found if match]
