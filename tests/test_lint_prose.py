"""The check of the project's words, on texts that are right and wrong."""

import textwrap

import pytest

import lint_prose
from lint_prose import Allowed, find_coined_names, find_hits, main

MARKDOWN = """\
# Runs

The run is gone on
with, and `told` is code. See [told](told.md).

```text
told by the program
```

```yaml
a: 1 # told
```
"""

MODULE = '''\
"""First line.

    What is told.
    """
told = f"{told} is held " \\
    "against it"
# A limit lies
# below it.
limits = ("told", held, "against")
'''


def lines_of(text, path):
    return sorted((hit.line, hit.phrase) for hit in find_hits(text, path))


def test_markdown():
    assert lines_of(MARKDOWN, "page.md") == [(3, "gone on"), (4, "told"), (11, "told")]


def test_docstrings_comments_and_literals():
    assert lines_of(MODULE, "module.py") == [(3, "told"), (5, "held against"), (7, "lies below"), (9, "told")]


def test_coined_words_in_public_names():
    names = ("ThinCell", "list_stretches", "_Stretch", "Thinking", "keep_house", "household")
    source = "".join(f"def {name}(): pass\n" if name.islower() else f"class {name}: pass\n" for name in names)
    found = [hit.phrase for hit in find_coined_names(source, "package/room.py")]
    assert found == ["room", "ThinCell", "list_stretches", "keep_house"]


@pytest.mark.parametrize("text", ["recommended", "it stands for 1", "an agent that goes", "held up against"])
def test_words_are_whole(text):
    assert len(lines_of(text, "page.md")) == (text == "held up against")


def test_allowed_lines(monkeypatch):
    monkeypatch.setattr(lint_prose, "ALLOWED", (Allowed("page.md", "it was told", "a quotation"),))
    assert lines_of("it was told\nwe told it", "page.md") == [(2, "told")]


def test_a_hit_fails(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("Fine.\nMended anew.\n")
    assert main([str(page)]) == 1
    assert capsys.readouterr().out == textwrap.dedent(f"""\
        {page}:2: 'Mended': write fix, repair
        {page}:2: 'anew': write again
        """)
