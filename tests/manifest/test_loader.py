import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.base.errors import InvalidInput
from evalspec.inputs.manifest.loader import load_manifest

HEAD = """\
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {name: bot, version: 1.0.0, description: A bot}
"""
MINIMAL = HEAD + "spec:\n  evaluation:\n    datasets: [{name: a, path: a.jsonl}]\n"

AGENTSPEC_V1 = """\
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {name: budget-assistant, version: 2.1.0, description: Answers questions, tags: [a], author: x}
spec:
  model: {provider: groq, id: llama, apiKey: $env:GROQ_API_KEY, parameters: {temperature: 0.2}, fallback: {provider: x}}
  prompts:
    {system: $file:prompts/system.md, fallback: sorry, hotReload: true, variables: [{name: d, value: $func:now_date}]}
  tools: [{name: t, type: function, module: $file:tools.py, function: f, annotations: {readOnlyHint: true}}]
  memory: {shortTerm: {backend: redis}, hygiene: {piiScrubFields: [ssn]}}
  api:
    type: rest
    port: 8000
    pathPrefix: /api
    auth: {type: jwt, jwksUri: $env:JWKS}
    rateLimit: {requestsPerMinute: 60}
    streaming: true
    healthEndpoint: /health
    chatEndpoint:
      {path: /v1/chat, protocol: openai-compatible, streaming: true, sessionMode: stateful, threadIdHeader: X-Thread}
  guardrails: {input: [{type: topic-filter, rejectMessage: no}]}
  evaluation:
    framework: deepeval
    datasets: [{name: qa, path: $file:evals/qa.jsonl}]
    metrics: [faithfulness, hallucination]
    thresholds: {faithfulness: 0.8, hallucination: 0.1}
    ciGate: true
  observability: {tracing: {backend: langfuse}}
  compliance: {packs: [owasp-llm-top10]}
  requires: {envVars: [GROQ_API_KEY]}
"""


@pytest.fixture
def load(tmp_path):
    def load(text, name="agent.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_manifest(path)

    return load


def problems(load, text):
    with pytest.raises(InvalidInput) as caught:
        load(text)
    return caught.value.problems


def test_a_whole_agentspec_manifest_loads_unchanged(load):
    manifest = load(AGENTSPEC_V1).manifest
    assert manifest.spec.evaluation.ci_gate.enabled
    assert [entry.name for entry in manifest.spec.evaluation.metrics] == ["faithfulness", "hallucination"]
    assert manifest.spec.api.chat_endpoint.protocol == "openai-compatible"


@pytest.mark.parametrize(
    ("yaml", "line", "field", "message", "fix"),
    [
        ("chatEndpoint: {pth: /x}", 6, "spec.api.chatEndpoint.pth", "unknown key 'pth'", "did you mean 'path'?"),
        (
            "chatEndpoint: {timeoutSeconds: -1}",
            6,
            "spec.api.chatEndpoint.timeoutSeconds",
            "-1 is not",
            "greater than 0",
        ),
        ("chatEndpoint: {protocol: custom}", 6, "spec.api.chatEndpoint", "protocol custom needs both", ""),
        (
            "chatEndpoint: {protocol: custom, parameters: {n: 1}, request: {q: '{{input}}'}, response: {answer: $.a}}",
            6,
            "spec.api.chatEndpoint",
            "parameters are added to the requests of a model's protocol",
            "write protocol: openai-compatible",
        ),
    ],
)
def test_chat_endpoint_problems_name_line_field_and_fix(load, yaml, line, field, message, fix):
    text = HEAD + f"spec:\n  api:\n    {yaml}\n  evaluation:\n    datasets: [{{name: a, path: a}}]\n"
    (problem,) = problems(load, text)
    assert (problem.line, problem.field) == (line, field)
    assert message in problem.message
    assert fix in problem.render()


@pytest.mark.parametrize(
    ("yaml", "field", "part"),
    [
        ("datsets: []", "spec.evaluation.datsets", "did you mean 'datasets'?"),
        ("judge: {modle: x}", "spec.evaluation.judge.modle", "did you mean 'model'?"),
        ("thresholds: {x: '0.8'}", "spec.evaluation.thresholds.x", "write a number"),
        ("thresholds: {x: true}", "spec.evaluation.thresholds.x", "write a number"),
        ("thresholds: {x: .nan}", "spec.evaluation.thresholds.x", "finite"),
        ("thresholds: {x: {slice: a}}", "spec.evaluation.thresholds.x", "needs min or max"),
        ("thresholds: {x: {min: 2, max: 1}}", "spec.evaluation.thresholds.x", "nothing can pass"),
        ("thresholds: {x: [0.1, {mn: 1}]}", "spec.evaluation.thresholds.x[1].mn", "did you mean 'min'?"),
        ("ciGate: {minCoverage: 2}", "spec.evaluation.ciGate.minCoverage", "less than or equal to 1"),
        ("ciGate: yes please", "spec.evaluation.ciGate", "write true or false"),
        ("metrics: []", "spec.evaluation.metrics", "it is empty"),
        ("metrics: [{name: t, rubric: r, labels: {a: 1}}]", "spec.evaluation.metrics[0].labels", "needs at least 2"),
        ("metrics: [{name: x, rubric: r}]", "spec.evaluation.metrics[0]", "labels: {good: 1, bad: 0}"),
        ("metrics: [{name: x, scorer: os}]", "spec.evaluation.metrics[0].scorer", "write module:name"),
        ("embeddings: {provider: openai-compatible}", "spec.evaluation.embeddings", "needs a model"),
    ],
)
def test_evaluation_problems(load, yaml, field, part):
    text = HEAD + f"spec:\n  evaluation:\n    datasets: [{{name: a, path: a}}]\n    {yaml}\n"
    (problem,) = problems(load, text)
    assert problem.field == field
    assert part in problem.render()
    assert problem.line == 7


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        ("-1", "maxDrop", "greater than or equal to 0"),
        ("much", "maxDrop", "'much' is not accepted here. it should be a number"),
        ("{}", "maxDrop", "it is empty"),
        ("{RR: -1}", "maxDrop.RR", "greater than or equal to 0"),
    ],
)
def test_a_value_of_several_types_has_one_problem(load, given, field, said):
    text = HEAD + f"spec:\n  evaluation:\n    ciGate: {{baseline: main, maxDrop: {given}}}\n"
    (problem,) = problems(load, text)
    assert problem.field == f"spec.evaluation.ciGate.{field}" and said in problem.render()


def test_all_problems_come_at_once(load):
    text = HEAD + textwrap.dedent("""\
        spec:
          api: {chatEndpoint: {pth: x}}
          evaluation:
            ciGte: true
            datasets:
              - {name: a, path: a, metric: [x]}
              - {name: a, path: 3}
        """)
    assert {(p.line, p.field) for p in problems(load, text)} == {
        (5, "spec.api.chatEndpoint.pth"),
        (7, "spec.evaluation.ciGte"),
        (9, "spec.evaluation.datasets[0].metric"),
        (10, "spec.evaluation.datasets[1].path"),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "empty"),
        (b"- a\n- b\n", "mapping"),
        (b"a: [1\n", "not valid YAML"),
        (b"a: 1\na: 2\n", "duplicate key"),
        (b"a: &a [*a]\n", "contains itself"),
        (
            b"a: !!python/object/apply:os.system [id]\n",
            "tag:yaml.org,2002:python/object/apply:os.system is not supported",
        ),
        (b"\xff\xfea", "UTF-8"),
        (b"a: " + b"x" * 1_100_000, "1,048,576"),
        (b"a: \x00", "not valid YAML"),
        (b"a: " + b"[" * 3000, "nested too deeply"),
        (b"a: [" + b"1," * 50_000 + b"1]", "more than 50,000 values"),
        (b"a: {!!set {b}}\n", "must be plain text"),
    ],
    ids=["empty", "list", "broken", "twice", "recursive", "object", "utf16", "large", "control", "deep", "many", "set"],
)
def test_bad_yaml_is_one_clear_problem(load, text, message):
    found = problems(load, text)
    assert len(found) == 1
    assert message in found[0].render()


def test_an_alias_bomb_is_refused_before_it_explodes(load):
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20)]
    (problem,) = problems(load, "\n".join(levels))
    assert "aliases expand" in problem.message


def test_byte_order_mark_and_crlf_are_fine(load):
    assert load(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode()).manifest.metadata.name == "bot"


def test_missing_file_and_directory(tmp_path):
    for path, message in ((tmp_path / "none.yaml", "no such file"), (tmp_path, "directory")):
        with pytest.raises(InvalidInput, match=message):
            load_manifest(path)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=12,
    )
)
def test_any_document_loads_or_says_why(tmp_path_factory, value):
    import yaml

    path = tmp_path_factory.getbasetemp() / "any.yaml"
    document = yaml.safe_load(MINIMAL)
    document["spec"]["evaluation"]["thresholds"] = value
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    try:
        load_manifest(path)
    except InvalidInput as error:
        assert all(problem.file and problem.message for problem in error.problems)
