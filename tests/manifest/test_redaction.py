import base64
import html
import json
import os
import re
import subprocess
import sys
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.inputs.manifest.redaction import MissingValue, Redaction, list_references

SECRET = "s3cr3t/+value=ä\n"
texts = st.text(st.characters(codec="utf-8") | st.sampled_from("[]:…redacted"), max_size=60)
values = st.text(st.characters(codec="utf-8") | st.sampled_from("[]:….redacted&'"), min_size=4, max_size=20)
WAYS = (
    str,
    str.upper,
    str.swapcase,
    lambda value: json.dumps(json.dumps(value)),
    lambda value: value.encode().hex(),
    lambda value: quote(value, safe=""),
    lambda value: f"{value[:10]}...",
    lambda value: f"{json.dumps(value)[:11].upper()}…",
    lambda value: "".join(f"&#{ord(letter)};" for letter in value),
)


def hiding(**values):
    redaction = Redaction()
    for name, value in values.items():
        redaction.add(f"env:{name}", value)
    return redaction


@given(st.lists(texts | values), st.dictionaries(st.sampled_from(["A", "B", "C"]), values))
def test_what_is_hidden_is_gone_and_comes_back_exactly(parts, known):
    text = "".join([*parts, *known.values(), *parts])
    redaction = hiding(**known)
    hidden = redaction.hide(text)
    assert redaction.restore(hidden) == text
    left = hidden
    for reference in list_references(hidden.encode()):
        left = left.replace(f"[redacted:{reference}", "\0")
    assert not any(value in left for value in known.values() if len(value.strip()) >= 4 and value not in "[redacted:]")


@given(st.lists(texts), st.dictionaries(st.sampled_from(["A", "B"]), values, min_size=1), st.sampled_from(WAYS))
def test_a_value_in_any_form_comes_back_exactly(parts, known, way):
    redaction = hiding(**known)
    text = "".join([*parts, *map(way, known.values()), *parts])
    assert redaction.restore(redaction.hide(text)) == text


@given(
    st.lists(texts | values),
    st.dictionaries(st.sampled_from(["A", "B", "C"]), values),
    st.none() | st.sampled_from(WAYS),
)
def test_a_line_that_counts_as_clean_has_nothing_to_hide(parts, known, way):
    redaction = hiding(**known)
    data = {"texts": ["".join([*parts, *(map(way, known.values()) if way else ())]), *parts]}
    for line in (json.dumps(data), json.dumps(data, ensure_ascii=False)):
        assert not redaction.is_clean(line.encode()) or redaction.hide_data(data) == data


def test_an_ordinary_line_is_clean():
    line = '{"response": "two days", "reason": "\\"ä\\""}'.encode()
    assert Redaction().is_clean(line) and hiding(TOKEN=SECRET).is_clean(line)
    assert not hiding(TOKEN=SECRET).is_clean(json.dumps({"response": f"it is {SECRET}"}).encode())


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("plain", f"a {SECRET} b"),
        ("without its line end", f"a {SECRET.strip()} b"),
        ("JSON", json.dumps({"key": SECRET})),
        ("JSON with its letters", json.dumps({"key": SECRET}, ensure_ascii=False)),
        ("repr", repr(SECRET)),
        ("a query", f"?key={quote(SECRET.strip(), safe='')}&"),
        ("Basic", base64.b64encode(f"user:{SECRET.strip()}".encode()).decode()),
        ("Basic of a longer user", base64.b64encode(f"users:{SECRET.strip()}@".encode()).decode()),
        ("base64", base64.b64encode(SECRET.encode()).decode()),
        ("URL-safe base64", base64.urlsafe_b64encode(SECRET.strip().encode()).decode()),
    ],
)
def test_every_form_in_which_a_value_travels(form, text):
    redaction = hiding(TOKEN=SECRET)
    hidden = redaction.hide(text)
    assert "[redacted:env:TOKEN" in hidden
    assert "value" not in hidden and "c2VjcjN0" not in hidden and "czNjcjN0" not in hidden
    assert redaction.restore(hidden) == text


LONG = "s3cr3t/+<'my' \"val\\ue\">&ä"
LONG_FORMS = {
    "capitals": LONG.upper(),
    "small letters": LONG.lower(),
    "letters of any case": LONG.swapcase(),
    "hex": LONG.encode().hex(),
    "hex in capitals": LONG.encode().hex().upper(),
    "hex with colons": LONG.encode().hex(":"),
    "hex with spaces in capitals": LONG.encode().hex(" ").upper(),
    "escaped bytes": "".join(f"\\x{byte:02x}" for byte in LONG.encode()),
    "each byte of a URL": "".join(f"%{byte:02X}" for byte in LONG.encode()),
    "each byte of a URL in small letters": "".join(f"%{byte:02x}" for byte in LONG.encode()),
    "a component of a URL in JavaScript": quote(LONG, safe="!'()*"),
    "each character for JSON": "".join(f"\\u{ord(letter):04X}" for letter in LONG),
    "decimal entities": "".join(f"&#{ord(letter)};" for letter in LONG),
    "hexadecimal entities": "".join(f"&#x{ord(letter):X};" for letter in LONG),
    "HTML": html.escape(LONG),
    "HTML text": html.escape(LONG, quote=False),
    "HTML as templates escape it": html.escape(LONG).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    "XML": html.escape(LONG).replace("&#x27;", "&apos;"),
    "JSON in JSON": json.dumps(json.dumps(LONG)),
    "JSON in JSON in JSON": json.dumps(json.dumps(json.dumps(LONG, ensure_ascii=False), ensure_ascii=False)),
    "JSON in JSON, in ASCII": json.dumps(json.dumps(json.dumps(LONG))),
    "JSON as PHP writes it": json.dumps(LONG).replace("/", "\\/"),
}


@pytest.mark.parametrize("form", LONG_FORMS)
def test_every_form_of_a_long_value(form):
    redaction, text = hiding(TOKEN=LONG), f"it says {LONG_FORMS[form]}, twice {LONG_FORMS[form]}!"
    hidden = redaction.hide(text)
    assert (
        re.sub(r"\[redacted:env:TOKEN[a-z0-9:-]*\]", "", hidden).replace('"', "").replace("\\", "")
        == "it says , twice !"
    )
    assert redaction.restore(hidden) == text
    for line in (json.dumps({"a": text}), json.dumps({"a": text}, ensure_ascii=False)):
        assert not redaction.is_clean(line.encode())


def test_a_short_value_is_not_found_in_other_case():
    assert hiding(TENANT="Billing-EU").hide("billing-eu BILLING-EU") == "billing-eu BILLING-EU"


@pytest.mark.parametrize("cut", ["sk-1234567890...", "SK-1234567890…", "SK-1234567890...."])
def test_a_value_that_is_cut_by_three_dots_or_in_other_case_is_hidden(cut):
    redaction = hiding(TOKEN="sk-1234567890abcdef")
    hidden = redaction.hide(f"Bearer {cut}")
    assert "123" not in hidden and redaction.restore(hidden) == f"Bearer {cut}"
    assert not redaction.is_clean(json.dumps(f"Bearer {cut}").encode())


def test_a_value_that_is_cut_off_is_hidden_too():
    redaction = hiding(TOKEN="sk-1234567890abcdef")
    assert redaction.hide("it says 'Bearer sk-1234567890…'") == "it says 'Bearer [redacted:env:TOKEN:first13]…'"
    assert redaction.restore("[redacted:env:TOKEN:first13]…") == "sk-1234567890…"
    assert redaction.hide("sk-123…") == "sk-123…", "the beginning of a key names its kind"


PEM = '-----BEGIN KEY-----\nMIIEvQIB?ADANBgk>qhki~G9w0 "BAQEF\n-----END KEY-----\n'
FORMS = {
    "plain": PEM,
    "on one line": " ".join(PEM.split()),
    "JSON": json.dumps(PEM)[1:-1],
    "repr": repr(PEM)[1:-1],
    "URL": quote(PEM, safe=""),
    "base64": base64.b64encode(PEM.encode()).decode(),
    "URL-safe base64 within a longer text": base64.urlsafe_b64encode(f"me:{PEM}zz".encode()).decode()[4:-4],
}


@pytest.mark.parametrize("length", [8, 21, 40])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_value_may_be_cut_off(form, length):
    redaction = hiding(KEY=PEM)
    text = f"its keys are {FORMS[form][:length]}…, and {FORMS[form][:length]}…"
    hidden = redaction.hide(text)
    assert hidden.count("[redacted:env:KEY") == 2 and FORMS[form][: length // 2] not in hidden
    assert redaction.restore(hidden) == text


def test_a_value_inside_one_that_is_cut_off_does_not_leave_the_rest():
    redaction = hiding(A="secret-and", B="very-secret-and-more")
    assert redaction.hide("very-secret-and-mo…") == "[redacted:env:B:first18]…"
    assert redaction.hide("a…b very-secret-and-more…") == "a…b [redacted:env:B]…"
    assert hiding(A="a secret…of ours").hide("a secret…of ours…") == "[redacted:env:A]…"


def test_many_cuts_take_no_more_time_than_the_text_is_long():
    """A page of contents stopped the run for seconds: each cut was held against each beginning of each value."""
    redaction, began = hiding(KEY="k" * 2400), time.process_time()
    text = "Chapter …… 1 " * 20_000
    assert redaction.hide(text) == text
    assert time.process_time() - began < 5


def test_a_value_inside_a_longer_one_does_not_leave_the_rest():
    redaction = hiding(A="secret", B="secret-and-more")
    assert redaction.hide("secret-and-more secret") == "[redacted:env:B] [redacted:env:A]"


def test_data_is_hidden_whole_and_numbers_stay():
    redaction = hiding(TOKEN="billing")
    data = {"k billing": ["a billing b", {"n": 3, "deep": ("billing",)}], "clean": None}
    place = "[redacted:env:TOKEN]"
    hidden = redaction.hide_data(data)
    assert hidden == {f"k {place}": [f"a {place} b", {"n": 3, "deep": [place]}], "clean": None}
    assert redaction.restore_known(hidden) == {
        "k billing": ["a billing b", {"n": 3, "deep": ["billing"]}],
        "clean": None,
    }


def test_what_is_not_known_is_not_invented():
    hidden = hiding(TOKEN="billing").hide("to billing")
    with pytest.raises(MissingValue, match="env:TOKEN"):
        hiding().restore(hidden)
    assert hiding().restore_known([hidden, "[redacted:]x"]) == [hidden, "[redacted:x"]


def test_short_values_stay():
    redaction = hiding(PORT="80")
    assert (redaction.hide("80 % of 180"), redaction.too_short) == ("80 % of 180", {"env:PORT"})


def test_a_description_tells_a_changed_value_and_no_value():
    described = hiding(A="billing", B="secret").describe()
    assert hiding(A="billing", B="another").list_changed(described) == {"env:B"}
    assert hiding(A="billing").list_changed(described) == {"env:B"}
    assert "billing" not in str(described)
    assert described["env:A"][:32] != described["env:B"][:32], "each value has its own salt"


def test_a_value_that_is_not_utf_8_is_hidden(tmp_path):
    script = (
        "import os; from evalspec.inputs.manifest.references import References; from pathlib import Path\n"
        "references = References(Path())\n"
        "references.resolve('$env:RAW')\n"
        "print(references.redact(os.environ['RAW'] + '!'))\n"
    )
    environ = {**os.environb, b"RAW": b"caf\xe9\xff-key"}
    outcome = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True)
    assert outcome.stdout == b"[redacted:env:RAW]!\n"
