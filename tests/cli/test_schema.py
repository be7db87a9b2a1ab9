"""The JSON Schemas that `evalspec schema` prints, which editors show and the site's reference is made from."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from click import Choice

from evalspec.cli.schema import command
from evalspec.inputs.datasets.jsonl_strict import JsonlSample

WHAT = next(one.type.choices for one in command.params if isinstance(one.type, Choice) and one.name == "what")


def list_keys(schema: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property at any depth, with its place."""
    if isinstance(schema, list):
        for inner in schema:
            yield from list_keys(inner, place)
    elif isinstance(schema, dict):
        for key, found in schema.items():
            if key in ("properties", "$defs"):
                for name, inner in found.items():
                    here = f"{place}.{name}".lstrip(".")
                    if key == "properties":
                        yield here, inner
                    yield from list_keys(inner, here)
            elif key not in ("default", "enum", "const"):
                yield from list_keys(found, place)


def find_description(key: dict[str, Any], definitions: dict[str, Any]) -> str:
    """The description of a key: its own, or that of the one type that it has."""
    named = [one["$ref"].rpartition("/")[2] for one in (key, *key.get("anyOf", ())) if "$ref" in one]
    of_type = definitions[named[0]].get("description", "") if len(named) == 1 else ""
    return key.get("description") or of_type


@pytest.mark.parametrize("what", WHAT)
def test_every_key_has_a_description(what, project):
    schema = project("schema", what).document
    found = {place: find_description(key, schema.get("$defs", {})) for place, key in list_keys(schema)}
    assert len(found) > 5
    assert [place for place, text in found.items() if not text.strip()] == []
    assert [place for place, text in found.items() if not text.endswith(".")] == []


def test_every_key_of_the_report_says_what_it_is_when_it_is_null_and_its_unit(project):
    found = dict(list_keys(project("schema", "report").document))
    assert len(found) > 150
    assert [place for place, key in found.items() if "description" not in key] == []
    nullable = [place for place, key in found.items() if {"type": "null"} in key.get("anyOf", ())]
    assert [place for place in nullable if "null" not in found[place]["description"]] == []
    assert [place for place in found if place.endswith("Ms") and " ms" not in found[place]["description"]] == []


@pytest.mark.parametrize("what", WHAT)
def test_a_key_has_no_title_that_only_repeats_its_name(what, project):
    assert [place for place, key in list_keys(project("schema", what).document) if "title" in key] == []


@pytest.mark.parametrize("what", WHAT)
def test_a_default_is_no_value_that_is_refused(what, project):
    keys = list_keys(project("schema", what).document)
    short = [place for place, key in keys if key.get("default") == [] and key.get("minItems")]
    assert not short, "editors write defaults"


def test_a_list_of_values_to_try_has_the_default_and_description_of_the_key(project):
    k1 = project("schema", "manifest").document["$defs"]["Bm25Options"]["properties"]["k1"]
    assert k1["default"] == 1.5
    assert k1["description"]
    assert [sorted(one) for one in k1["anyOf"]] == [["minimum", "type"], ["items", "minItems", "type"]]


@pytest.mark.parametrize("relevant", [[], ["a"], [["a", "b"], ["c"]], {"a": 0}, None])
def test_the_schema_of_a_dataset_line_accepts_what_evalspec_accepts(relevant, project):
    line = {"input": "Who?", "expected": "We", "relevant": relevant}
    assert JsonlSample.model_validate(line).relevant == relevant
    jsonschema.validate(line, project("schema", "dataset").document)
