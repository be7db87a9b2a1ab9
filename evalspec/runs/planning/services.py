"""Resolve the agent, judge and embeddings of a run from the manifest, the options and environment variables."""

import os
import re
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic.alias_generators import to_camel

from evalspec.base.errors import InvalidInput, Problem, split_fix
from evalspec.base.trust import permitted_variables
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.inputs.manifest.auth_schema import AuthConfig
from evalspec.inputs.manifest.environment_schema import SESSION
from evalspec.inputs.manifest.fields import ManifestModel
from evalspec.inputs.manifest.judge_schema import (
    LIMIT_KEYS,
    EmbeddingsConfig,
    JudgeConfig,
    ModelConfig,
    Parameters,
    PriceConfig,
    UserConfig,
)
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.references import UnresolvedReference
from evalspec.inputs.manifest.tool_schema import PLACE as TOOLS_PLACE
from evalspec.inputs.manifest.tool_schema import Tools
from evalspec.inputs.manifest.traces_schema import TracesConfig
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.inputs.user_code.calls import check_target
from evalspec.model import JudgePrice, Need
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.shares import choose_limits
from evalspec.scoring.judge.limits import name_option
from evalspec.scoring.judge.wire import JUDGE_WIRES
from evalspec.targets.agents.base import AgentTarget
from evalspec.targets.agents.mapping import check_mapping, list_queries
from evalspec.targets.agents.request_template import check_header, check_template
from evalspec.targets.agents.tool_player import ToolPlayer
from evalspec.targets.agents.wire import DEFAULT_WIRE, WIRES, find_wire
from evalspec.targets.http.keys import KeyPlace
from evalspec.targets.http.template import list_placeholders

_ROOT_FILTER = re.compile(r"\$(\.\.)?\s*\[\s*\?")
_NO_ROOT_FILTER = "name the field, as in $.docs[?…], or for the end of a stream write {path: $.type, equals: end}"
_UP_TO_USERINFO = re.compile(r"(?s)^([^/]*//)?.*@")
Config = TypeVar("Config", bound=ManifestModel)
JUDGE_PLACE: Place = ("spec", "evaluation", "judge")
USER_PLACE: Place = ("spec", "evaluation", "user")
EMBEDDINGS_PLACE: Place = ("spec", "evaluation", "embeddings")
ENVIRONMENT_PLACE: Place = ("spec", "evaluation", "environment")
LIMITS_PLACE: Place = ("spec", "evaluation", "limits")
API_PLACE: Place = ("spec", "api")
PORT = "{{port}}"
"""The port of the agent's URL, in its command."""
ENDPOINT_PLACE: Place = (*API_PLACE, "chatEndpoint")


def resolve_judge(declared: JudgeConfig | None) -> JudgeConfig | None:
    """Return the declared judge, or a default judge if OPENAI_API_KEY is set, otherwise None.

    OPENAI_BASE_URL replaces a missing baseUrl. OPENAI_API_KEY replaces a missing apiKey only if the manifest has no
    baseUrl, so the key is never sent to a host that it may not belong to.
    """
    if declared is None and not permitted_variables(os.environ).get("OPENAI_API_KEY"):
        return None
    return _complete_from_environment(declared or JudgeConfig())


def resolve_user(declared: UserConfig | None) -> UserConfig | None:
    """Return the declared model that plays users, completed from the environment like the judge."""
    return None if declared is None else _complete_from_environment(declared)


def read_price(price: PriceConfig | None) -> JudgePrice | None:
    """Return what tokens cost; None if the manifest does not say."""
    return None if price is None else JudgePrice(price.input, price.output, price.cached, price.cache_write)


def check_model_wires(loaded: LoadedManifest, problems: list[Problem]) -> None:
    """Check that the wires of the judge and of the simulated user exist and know the response format."""
    user, judge = loaded.manifest.spec.evaluation.user, loaded.manifest.spec.evaluation.judge
    found: list[tuple[Place, ModelConfig]] = [] if user is None else [(USER_PLACE, user)]
    for number, member in enumerate([] if judge is None else judge.members):
        found.append(((*JUDGE_PLACE, "panel", number - 1) if number else JUDGE_PLACE, member))
    for place, one in found:
        in_panel = judge.panel[place[-1]] if judge is not None and isinstance(place[-1], int) else None
        wire = JUDGE_WIRES.find(one.wire)
        if wire is None:
            message = f"unknown judge wire '{one.wire}'"
            problems.append(loaded.problem((*place, "wire"), message, JUDGE_WIRES.hint(one.wire)))
        elif judge is not None and in_panel is not None and one.wire != judge.wire and in_panel.base_url is None:
            message = f"the judge's address is for wire {judge.wire}, and this one speaks {wire.name}"
            problems.append(loaded.problem((*place, "baseUrl"), message, "add baseUrl, with apiKey if it needs one"))
        elif one.response_format not in {"auto", "none", *wire.forms}:
            message = f"wire {wire.name} has no response format {one.response_format}"
            fix = f"use {', '.join(sorted({'auto', *wire.forms}))} or none"
            section = USER_PLACE if place == USER_PLACE else JUDGE_PLACE
            problems.append(loaded.problem((*section, "responseFormat"), message, fix))


def check_batch(judge: JudgeConfig | None, options: RunOptions, problems: list[Problem]) -> None:
    """Check that the judge of a run can answer in batches, if it is to, and that a panel is to grade once."""
    wire = JUDGE_WIRES.find(judge.wire) if judge else None
    others = {
        "--no-judge": (options.no_judge, "the judge is asked nothing"),
        "--no-content": (options.no_content, "replies and the judge's answers have to be stored until the verdict"),
        "--fail-fast": (options.fail_fast, "a batch asks for all scores of a round"),
    }
    given = [(name, why) for name, (is_given, why) in others.items() if is_given]
    found = [(f"{name} does not go with it: {why}", "remove one of the two") for name, why in given]
    if wire is not None and wire.batch is None:
        found.append((f"wire {wire.name} cannot batch", "remove --batch, or choose another wire of the judge"))
    if judge is not None and judge.panel:
        found.append(("a panel cannot batch", "remove --batch, or judge.panel"))
        if options.judge_repeat > 1:
            why = "each judge of a panel grades a reply once"
            problems.append(Problem(why, "remove --judge-repeat, or judge.panel", field="--judge-repeat"))
    if options.batch:
        problems.extend(Problem(*one, field="--batch") for one in found)


def name_limit(name: str, options: RunOptions) -> str:
    """Return what sets a limit of a run: its option, or its key in the manifest. `name`: of `SpendingLimits`."""
    return name_option(name) if getattr(options, name) is not None else f"spec.evaluation.limits.{to_camel(name)}"


def check_limits(loaded: LoadedManifest, options: RunOptions, problems: list[Problem]) -> None:
    """Check that limits on the judge have what to count with, and that --fail-fast has a verdict."""
    if options.fail_fast and not loaded.manifest.spec.evaluation.ci_gate.enabled:
        message, fix = "ciGate is off, so no score can change the verdict", "set ciGate: true, or remove the option"
        problems.append(Problem(message, fix, field="--fail-fast"))
    evaluation = loaded.manifest.spec.evaluation
    models = {JUDGE_PLACE: resolve_judge(evaluation.judge), USER_PLACE: evaluation.user}
    for place, model in models.items():
        if model is not None:
            _check_answers_end(loaded, options, model, place, problems)
            _check_price(loaded, options, model, place, problems)


def _check_price(
    loaded: LoadedManifest, options: RunOptions, model: ModelConfig, place: Place, problems: list[Problem]
) -> None:
    """Check that the price of a model is known if the cost is limited."""
    if choose_limits(loaded, options).max_cost is None or model.price is not None:
        return
    who = "judge" if place == JUDGE_PLACE else "simulated user"
    message = f"the cost of the {who} is limited, but the price of {model.model} is unknown"
    fix = "add your prices of a million tokens, as in price: {input: 0.25, output: 2}, or limit tokens or calls instead"
    if options.max_cost is None:
        problems.append(loaded.problem((*LIMITS_PLACE, "maxCost"), message, fix))
    else:
        problems.append(Problem(message, f"{fix} ({'.'.join(map(str, place))}.price)", field="--max-cost"))


def _check_answers_end(
    loaded: LoadedManifest, options: RunOptions, model: ModelConfig, place: Place, problems: list[Problem]
) -> None:
    """Check that the length of an answer is limited if a limit of the run has to reserve for it."""
    limits = choose_limits(loaded, options)
    limited = [name for name in ("max_cost", "max_tokens") if getattr(limits, name) is not None]
    stated: dict[Place, Parameters] = {place: model.parameters}
    panel = model.panel if isinstance(model, JudgeConfig) else []
    stated |= {(*place, "panel", at): one.parameters for at, one in enumerate(panel)}
    for section, parameters in stated.items():
        unlimited = sorted(LIMIT_KEYS.intersection(parameters))
        for name in limited if unlimited else ():
            message = (
                f"without it an answer may have any number of tokens, so {name_limit(name, options)} cannot be kept"
            )
            fix = "remove it, and set maxTokens, or limit calls or time instead"
            problems.append(loaded.problem((*section, "parameters", unlimited[0]), message, fix))


def resolve_embeddings(declared: EmbeddingsConfig) -> EmbeddingsConfig:
    """Return the declared embeddings. An endpoint is completed from the environment like the judge."""
    return declared if declared.provider == "local" else _complete_from_environment(declared)


def _complete_from_environment(config: Config) -> Config:
    if "base_url" in config.model_fields_set:
        return config
    environ = permitted_variables(os.environ)
    found = {"base_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY"}
    auth = getattr(config, "auth", None)
    given = config.model_fields_set | ({"api_key"} if auth is not None and auth.has_token else set())
    update = {
        field: f"$env:{variable}" for field, variable in found.items() if environ.get(variable) and field not in given
    }
    return config.model_copy(update=update)


def resolve_config(config: Config, place: Place, loaded: LoadedManifest, problems: list[Problem]) -> Config:
    """Return the config with its references resolved. Unresolved references go to `problems`.

    Unset fields stay unset, so defaults can still be distinguished from explicit values.
    """
    said = config.model_dump(by_alias=True, exclude_unset=True)
    return type(config).model_validate(loaded.resolve(said, place, problems))


def locate_keys(loaded: LoadedManifest) -> KeyPlace:
    """Return where commands that print keys run. What they print is redacted."""
    return KeyPlace(loaded.path.parent, loaded.references.redaction.add_printed)


def check_auth(auth: AuthConfig | None, place: Place, loaded: LoadedManifest, problems: list[Problem]) -> None:
    """Check the token endpoint's url, and load the certificate, before the first request. `place`: of the service."""
    bad = explain_bad_url(auth.oauth2.token_url) if auth is not None and auth.oauth2 is not None else None
    try:
        if bad is not None:
            problems.append(loaded.problem((*place, "auth", "oauth2", "tokenUrl"), *bad))
        elif auth is not None:
            from evalspec.targets.http.credentials import Credentials

            Credentials(auth, "", locate_keys(loaded)).choose_route("https://")
    except InvalidInput as error:
        problems.extend(loaded.problem((*place, "auth"), one.message, one.fix) for one in error.problems)


def check_endpoint(loaded: LoadedManifest, problems: list[Problem], warnings: list[Problem]) -> None:
    """Check the URL for placeholders, and the templates and JSONPath queries of the chat endpoint."""
    endpoint = loaded.manifest.spec.api.chat_endpoint
    bad = _explain_placeholder(loaded.manifest.spec.api.url)
    if bad is not None:
        problems.append(loaded.problem((*API_PLACE, "url"), *bad))
    if endpoint.protocol is not None and WIRES.find(endpoint.protocol) is None:
        message = f"unknown protocol '{endpoint.protocol}'"
        problems.append(loaded.problem((*ENDPOINT_PLACE, "protocol"), message, WIRES.hint(endpoint.protocol)))
    for message in check_template(endpoint.request) if endpoint.request is not None else ():
        problems.append(loaded.problem((*ENDPOINT_PLACE, "request"), message))
    texts = {("path",): endpoint.path} | {("headers", name): text for name, text in endpoint.headers.items()}
    for key, text in texts.items():
        problems += [loaded.problem((*ENDPOINT_PLACE, *key), message) for message in check_header(text)]
    _check_session(loaded, warnings)
    for field, message in check_mapping(endpoint.response) if endpoint.response else ():
        problems.append(loaded.problem((*ENDPOINT_PLACE, "response", field), message))
    for field, text in list_queries(endpoint.response).items() if endpoint.response else ():
        if _ROOT_FILTER.match(text):
            message = f"{text} filters the values of the whole reply, which is right only if the reply is a list"
            warnings.append(loaded.problem((*ENDPOINT_PLACE, "response", field), message, _NO_ROOT_FILTER))


def _check_session(loaded: LoadedManifest, warnings: list[Problem]) -> None:
    """Warn about keys of the session that have no effect."""
    api = loaded.manifest.spec.api
    endpoint = api.chat_endpoint
    if endpoint.session_mode == "stateless" and endpoint.thread_id_header:
        message = "no session id is sent with sessionMode: stateless"
        warnings.append(loaded.problem((*ENDPOINT_PLACE, "threadIdHeader"), message, "remove one of the two"))
    if api.python is not None and endpoint.session_mode == "stateful":
        message = "it has no effect: an agent in Python gets the whole conversation with each turn"
        warnings.append(loaded.problem((*ENDPOINT_PLACE, "sessionMode"), message, "remove it"))


def check_environment(loaded: LoadedManifest, problems: list[Problem]) -> None:
    """Check the functions of the environment, and that the agent knows the world of an attempt if each has its own."""
    spec = loaded.manifest.spec
    config, endpoint = spec.evaluation.environment, spec.api.chat_endpoint
    if config is None:
        return
    for name, call in (("state", config.state), ("reset", config.reset)):
        for text in check_target(loaded.path.parent, call.python) if call is not None and call.python else ():
            problems.append(loaded.problem((*ENVIRONMENT_PLACE, name, "python"), *split_fix(text)))
    if not config.isolated or _carries_session(endpoint, is_python=spec.api.python is not None):
        return
    message = f"isolated needs {SESSION} in the agent's requests"
    fix = "add it to chatEndpoint.path, headers or request, or remove isolated"
    if spec.api.python is not None:
        message, fix = f"isolated needs {SESSION} in requests, and an agent in Python gets none", "remove isolated"
    problems.append(loaded.problem((*ENVIRONMENT_PLACE, "isolated"), message, fix))


def _carries_session(endpoint: ChatEndpoint, *, is_python: bool) -> bool:
    """Return whether each request says which attempt it belongs to."""
    if is_python:
        return False
    placeholders = list_placeholders([endpoint.path, *endpoint.headers.values(), endpoint.request])
    return endpoint.session_header is not None or "session" in placeholders


def check_tools(loaded: LoadedManifest, tools: Tools | None, problems: list[Problem]) -> None:
    """Check the functions of tools that evalspec plays, and that the agent's protocol lets it."""
    played = {name: tool for name, tool in (tools or {}).items() if tool.is_answered}
    for name, tool in played.items():
        for message in check_target(loaded.path.parent, tool.python) if tool.python else ():
            problems.append(loaded.problem(TOOLS_PLACE, f"{name}: {message}"))
    api = loaded.manifest.spec.api
    wire = WIRES.find(api.chat_endpoint.protocol or DEFAULT_WIRE)
    if played and (api.python is not None or (wire is not None and wire.add_results is None)):
        able = ", ".join(one.name for one in WIRES if one.add_results is not None)
        message = f"'{next(iter(played))}' has an answer, but only calls of a bare model are answered, by {able}"
        problems.append(loaded.problem(TOOLS_PLACE, message, "set chatEndpoint.protocol, or remove result and python"))
    mapping = api.chat_endpoint.response
    if played and mapping is not None and mapping.tool_calls is None:
        message = f"'{next(iter(played))}' has an answer, but no mapped reply shows calls"
        problems.append(loaded.problem(TOOLS_PLACE, message, "map chatEndpoint.response.toolCalls, or remove response"))


def choose_traces(loaded: LoadedManifest, options: RunOptions) -> TracesConfig | None:
    """Return how spans of the agent are received; None if they are not, also because all replies are recorded."""
    config = loaded.manifest.spec.api.traces
    if options.has_replies or (config is None and not options.traces):
        return None
    config = config or TracesConfig()
    return config.model_copy(update={"receive": "auto"}) if config.receive is None and config.file is None else config


def check_traces(loaded: LoadedManifest, options: RunOptions, problems: list[Problem], *, is_python: bool) -> None:
    """Check that the agent can learn where its spans are received, and that the file of a collector has a place."""
    config, api = choose_traces(loaded, options), loaded.manifest.spec.api
    if config is not None and config.file is not None:
        try:
            loaded.references.path(config.file)
        except UnresolvedReference as error:
            problems.append(loaded.problem((*API_PLACE, "traces", "file"), error.message, error.fix))
    if config is None or config.receive != "auto" or is_python or (api.command is not None and options.url is None):
        return
    place = (*API_PLACE, "traces") if api.traces is not None else API_PLACE
    message = "an agent that evalspec does not start cannot know where spans are received"
    fix = (
        "write traces: {receive: PORT}, and let its exporter send to http://127.0.0.1:PORT; or name a collector's file"
    )
    problems.append(loaded.problem(place, message, fix))


def needs_from_mapping(endpoint: ChatEndpoint) -> frozenset[Need]:
    """Return the needs that the mapped reply satisfies."""
    mapping = endpoint.response
    found = {
        Need.CONTEXT: mapping is not None and mapping.contexts is not None,
        Need.RETRIEVED_IDS: mapping is not None and mapping.context_ids is not None,
    }
    return frozenset(need for need, present in found.items() if present)


def resolve_url(loaded: LoadedManifest, given: str | None, problems: list[Problem]) -> str | None:
    """Return the agent's base URL from the option (or EVALSPEC_URL) or the manifest; None with a problem if invalid."""
    url = given
    if url is None and loaded.manifest.spec.api.url is not None:
        url = str(loaded.resolve(loaded.manifest.spec.api.url, (*API_PLACE, "url"), problems))
    if url is None:
        fix = "set spec.api.url, pass --url or export EVALSPEC_URL"
        problems.append(loaded.problem(API_PLACE, "the agent has no URL", fix))
        return None
    problem = explain_bad_url(url)
    if problem is None:
        return url.rstrip("/")
    if given is not None:
        problems.append(Problem(*problem, field="--url"))
    else:
        problems.append(loaded.problem((*API_PLACE, "url"), *problem))
    return None


def explain_bad_url(url: str) -> tuple[str, str] | None:
    """Return message and fix if a text is no HTTP URL, otherwise None."""
    shown = _UP_TO_USERINFO.sub(r"\1", url)  # a bad url has no certain end of its userinfo
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError as error:
        return f"'{shown}' is not a URL: {error}", "use a URL like http://localhost:4000"
    if parts.scheme not in ("http", "https"):
        return f"'{shown}' does not start with http:// or https://", f"use http://{shown.rpartition('//')[2]}"
    if not parts.hostname or not port_is_fine:
        return f"'{shown}' has no host", "use a URL like http://localhost:4000"
    return _explain_placeholder(url)


def _explain_placeholder(url: str | None) -> tuple[str, str] | None:
    """Return message and fix if a URL has a placeholder: data must never choose the host."""
    if url is None or not list(list_placeholders(url)):
        return None
    return "a placeholder is not replaced in a URL", "put it into chatEndpoint.path or the request"


def resolve_target(
    loaded: LoadedManifest, url: str, timeout: float | None, problems: list[Problem], tools: Tools | None = None
) -> AgentTarget:
    """Return the endpoint with its references resolved. `tools`: those that the agent has."""
    endpoint = resolve_config(loaded.manifest.spec.api.chat_endpoint, ENDPOINT_PLACE, loaded, problems)
    if timeout is not None:
        endpoint = endpoint.model_copy(update={"timeout_seconds": timeout})
    wire = find_wire(endpoint)
    if wire.path is not None and "path" not in endpoint.model_fields_set:
        endpoint = endpoint.model_copy(update={"path": wire.path})
    headers = {**wire.headers, **endpoint.headers}
    played = tools is not None and any(tool.is_answered for tool in tools.values())
    player = ToolPlayer(tools, loaded.path.parent) if tools is not None and played else None
    return AgentTarget(url + "/" + endpoint.path.lstrip("/"), endpoint, headers, player, url)
