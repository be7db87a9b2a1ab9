"""The modules of docs/how-to/recipes.md: `validate` accepts all, and those that import no framework run."""

import pytest

from shell_pages import ROOT, name_file, read_blocks

PAGE = ROOT / "docs" / "how-to" / "recipes.md"
MODULES = {name_file(block.code): block.code for block in read_blocks(PAGE) if block.language == "python"}
OBJECTS = {"langgraph_bot.py": "graph", "llamaindex_bot.py": "engine"}
MY_APP = '''
"""An application that has the shapes of Haystack, CrewAI and PydanticAI."""
from types import SimpleNamespace as Having


class pipeline:
    def run(inputs, include_outputs_from):
        assert inputs["retriever"]["query"] == inputs["prompt"]["question"]
        document = Having(content="Paris is the capital of France.", meta={"id": "france"})
        found = {name: {"documents": [document]} for name in include_outputs_from}
        return {**found, "llm": {"replies": [Having(text="Paris")]}}


class SupportCrew:
    def crew(self):
        return self

    def kickoff(self, inputs):
        used = Having(prompt_tokens=9, completion_tokens=1, successful_requests=1)
        return Having(raw=inputs["question"] and "Paris", token_usage=used)


class agent:
    async def run(question):
        call = Having(part_kind="tool-call", tool_name="find", args_as_dict=lambda: {"place": "France"})
        return Having(output="Paris", new_messages=lambda: [Having(parts=[call, Having(part_kind="text")])])
'''


@pytest.mark.parametrize("file", MODULES)
def test_the_module_is_an_agent(project, file):
    (project.folder / file).write_text(MODULES[file], encoding="utf-8")
    project.api["python"] = f"{file.removesuffix('.py')}:{OBJECTS.get(file, 'answer')}"
    done = project.validate()
    assert done.code == 0, done.out


@pytest.mark.parametrize(
    ("file", "has"),
    [
        ("haystack_bot.py", {"retrieved_context_ids": ["france"]}),
        ("crewai_bot.py", {}),
        ("pydantic_bot.py", {"tool_calls": [{"name": "find", "arguments": {"place": "France"}}]}),
    ],
)
def test_the_agent_answers(project, file, has):
    project.samples(1)
    (project.folder / file).write_text(MODULES[file], encoding="utf-8")
    (project.folder / "my_app.py").write_text(MY_APP, encoding="utf-8")
    project.api["python"] = f"{file.removesuffix('.py')}:answer"
    done = project.evaluate("--json")
    assert done.document["datasets"][0]["metrics"]["string_match"]["value"] == 1, done.err
    (attempt,) = project("show", "s0", "--json").document["attempts"]
    assert {key: attempt.get(key) for key in has} == has
