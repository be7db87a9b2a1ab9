"""`evalspec label`: what a person says about the replies and scores of a run."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.base.foreign_text import inert, visible
from evalspec.base.json_text import render_line
from evalspec.cli.case_session import CaseSession, CaseView, require_terminal
from evalspec.cli.documents import emit_document
from evalspec.cli.labeller import find_labeller
from evalspec.cli.name_completion import complete_run
from evalspec.cli.options import (
    dataset_option,
    json_option,
    option,
    person_option,
    sample_size_option,
    seed_option,
    tag_option,
    where_option,
)
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.screen import Screen, build_body, build_excerpt, build_heading, build_marked, clean
from evalspec.cli.streams import notify
from evalspec.curation.gold.passages import find_different, find_shared
from evalspec.curation.labels.binding import Case
from evalspec.curation.labels.session import VERDICT_KEYS, LabelSession
from evalspec.model import Message, Score
from evalspec.model.labels import OF_REPLIES, OF_SHOWN_SCORES, LabelVerdict
from evalspec.runs.store.run_store import STORE, RunStore

_OF_ONE = ("attempt", "blind", "note", "value", "verdict")
_OF_PARTS = ("below_threshold", "failed", "sample_size", "tags", "where")
_OF_DRAWS = ("new", "random", "until_decided")
_OF_SESSIONS = (*_OF_PARTS, *_OF_DRAWS, "seed", "stratify")


@click.command("label", cls=OrderedCommand)
@click.argument("run", shell_complete=complete_run)
@option("--metric", metavar="METRIC", help="Judge the scores of this metric; without it, the replies.")
@dataset_option
@option("--random", type=click.IntRange(min=1), metavar="N", help="Score N drawn replies; the judge's score is hidden.")
@option(
    "--stratify", type=click.Choice(["judge"]), help="With --random: draw within the judge's values, after a pilot."
)
@option("--until-decided", is_flag=True, help="Draw replies until the threshold of --metric is met or missed for sure.")
@option("--new", is_flag=True, help="Score replies without a label, first those that narrow the interval most.")
@option("--failed", is_flag=True, help="Use only replies with a score beyond a threshold.")
@option("--below-threshold", is_flag=True, help="Use only scores that miss a threshold of --metric.")
@sample_size_option
@seed_option
@tag_option
@where_option
@person_option
@click.option("--sample", metavar="ID", help="Judge this sample, without a session.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="With --sample: the attempt, from 1.")
@click.option(
    "--verdict",
    type=click.Choice(list(map(str, LabelVerdict))),
    help="With --sample: good or bad for a reply; agree, disagree or rated for a score; withdrawn takes it back.",
)
@click.option("--value", type=float, metavar="SCORE", help="With disagree or rated: the score that you give.")
@click.option("--blind", is_flag=True, help="With rated: you have not seen the judge's score, reason or verdicts.")
@click.option("--note", metavar="TEXT", help="With --sample: reason or comment.")
@json_option
@click.pass_context
def command(context: click.Context, /, run: str, person: str | None, as_json: bool, **given: Any) -> ExitCode:
    """Judge replies of RUN, or scores of a metric, in a session on the terminal: a key decides.

    Shows question, contexts, answer and expected answer, with the words marked that differ, and for a score the reason
    and evidence of the judge. It continues where you left off, and shows nobody else's labels.

    With --random, --until-decided or --new, you score drawn replies yourself, by the questions that the judge answers.
    Score, reason and verdicts of the judge are hidden until then. Only such labels can correct a judge.

    With --sample and --verdict, it records one label without a session. A later label of yours on the same reply or
    score replaces the earlier one. A label remembers what it judged: sample, reply, metric, judge, prompt, score.

    This does not name a run: that is `evalspec runs label`.

    \b
    Examples:
      evalspec label latest --as ada --sample-size 50
      evalspec label latest --metric faithfulness --below-threshold
      evalspec label latest --metric faithfulness --random 50 --seed 1
      evalspec label latest --metric faithfulness --until-decided
      evalspec label latest --sample refund --verdict good --as ada
      evalspec label latest --sample refund --metric faithfulness \\
        --verdict disagree --value 1 --note "The block says so." --json
    """
    given_here = {
        name
        for name in (*_OF_ONE, *_OF_SESSIONS)
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    by = find_labeller(person)
    if given["sample"] is not None:
        _refuse(given_here & {*_OF_SESSIONS}, "belongs to a session", "leave out --sample, or this option")
        return _label_one(run, by, given, as_json=as_json)
    _refuse(given_here & {*_OF_ONE}, "needs --sample", "add --sample ID, or leave it out")
    _check_draws(given_here, given)
    if as_json:
        raise InvalidInput(Problem("a session prints no document", "add --sample ID --verdict VERDICT", field="--json"))
    return _open_session(run, by, given)


def _refuse(names: set[str], message: str, fix: str) -> None:
    if names:
        options = {"tags": "tag"}
        raise InvalidInput(
            Problem(message, fix, field=f"--{options.get(name, name).replace('_', '-')}") for name in sorted(names)
        )


def _check_draws(given_here: set[str], given: Mapping[str, Any]) -> None:
    """Check the options that draw replies.

    Raises:
        InvalidInput: They exclude each other, or would draw from a part of the replies, which says nothing of the rest.
    """
    drawing = sorted(given_here & {*_OF_DRAWS})
    if not drawing:
        _refuse(given_here & {"stratify"}, "needs --random", "add --random N")
        return
    first = f"--{drawing[0].replace('_', '-')}"
    if given["metric"] is None:
        raise InvalidInput(Problem("needs a metric", "add --metric METRIC", field=first))
    _refuse({*drawing[1:]}, f"is another way to draw than {first}", "leave out one of them")
    _refuse(given_here & {*_OF_PARTS}, f"leaves out a part of the replies that {first} draws from", "leave it out")
    if "random" not in drawing:
        _refuse(given_here & {"stratify"}, "needs --random", "add --random N")


def _label_one(run: str, by: str, given: Mapping[str, Any], *, as_json: bool) -> ExitCode:
    from evalspec.curation.labels.labelling import label

    datasets: Sequence[str] = given["datasets"]
    if given["verdict"] is None:
        raise InvalidInput(
            Problem("is missing", "add --verdict good, or without --sample start a session", field="--verdict")
        )
    if len(datasets) > 1:
        raise InvalidInput(Problem("a sample is in one dataset", "name one", field="--dataset"))
    made = label(
        run,
        given["sample"],
        given["verdict"],
        by=by,
        dataset=datasets[0] if datasets else None,
        attempt=given["attempt"] or 1,
        metric=given["metric"],
        value=given["value"],
        note=given["note"],
        is_blind=given["blind"],
    )
    if as_json:
        from msgspec import to_builtins

        emit_document({"label": to_builtins(made)})
    about = f"{made.sample}{f', {made.metric}' if made.metric else ''}"
    notify(f"{inert(by)}: {inert(about)}: {made.verdict}")
    if given["blind"] and not made.is_blind:
        notify("not blind: after an earlier label of yours on it you could see the score")
    return ExitCode.OK


def _open_session(run: str, by: str, given: Mapping[str, Any]) -> ExitCode:
    from evalspec.curation.labels.cases import LabelledRun
    from evalspec.curation.labels.judged_run import CaseFilter
    from evalspec.curation.labels.session import LabelSession
    from evalspec.inputs.datasets.selection import parse_selection

    require_label_terminal()
    if given["random"] or given["until_decided"] or given["new"]:
        from evalspec.cli.rating import open_drawn_session

        return open_drawn_session(run, by, given, _describe_again)
    size, seed = given["sample_size"], given["seed"]
    selection = parse_selection(tags=given["tags"], where=given["where"], size=size, seed=seed)
    wanted = CaseFilter(given["metric"], given["datasets"], selection, given["failed"], given["below_threshold"])
    opened = LabelledRun(RunStore(STORE), run)
    return run_label_session(LabelSession(opened, by, wanted), _describe_again(opened.id, by, given))


def _describe_again(run: str, by: str, given: Mapping[str, Any]) -> str:
    """Return the command that continues a session."""
    words = ["evalspec", "label", run, "--as", by]
    single = {
        "--metric": given["metric"],
        "--random": given["random"],
        "--stratify": given["stratify"],
        "--sample-size": given["sample_size"],
        "--seed": given["seed"] or None,
    }
    several = {"--dataset": given["datasets"], "--tag": given["tags"], "--where": given["where"]}
    words += [word for name, value in single.items() if value is not None for word in (name, str(value))]
    words += [word for name, values in several.items() for value in values for word in (name, value)]
    flags = [f"--{name.replace('_', '-')}" for name in (*_OF_DRAWS, *_OF_PARTS) if given[name] is True]
    return shlex.join([*words, *flags])


_BACK = "Ctrl-D: go back"
_NOTE, _WHOLE = "note", "whole"
SHARED_KEYS = {"n": _NOTE, "s": "skip", "u": "undo", "w": _WHOLE, "?": "help", "q": "quit"}
KEYS_OF_REPLIES = {VERDICT_KEYS[verdict]: str(verdict) for verdict in OF_REPLIES} | SHARED_KEYS
KEYS_OF_SCORES = {VERDICT_KEYS[verdict]: str(verdict) for verdict in OF_SHOWN_SCORES} | SHARED_KEYS

_HELP_OF_REPLIES = """\
A reply is good if you would send it to the person who asked: it answers the question, and what it says is right. \
Otherwise it is bad. Skip what you cannot judge."""
_HELP_OF_SCORES = """\
Agree if you would have given this score, or one that means the same. Otherwise disagree; then write the score that \
you would have given. Judge only what the metric measures, not whether you like the reply. Skip \
what you cannot judge."""
_HELP = """\
n writes a note for your next verdict on this reply. In the answer, words that the expected answer does not have are \
marked, and the other way around; in contexts, words of the answer.

Undo takes your last label back. Nobody's labels are shown here, because labels are blind.

Each label is written to .evalspec/verdicts/ at once, so you can quit at any time and continue later."""


def require_label_terminal() -> None:
    """Check that there is a terminal for a session.

    Raises:
        InvalidInput: There is none.
    """
    require_terminal("a labelling session", "without one: evalspec label RUN --sample ID --verdict VERDICT")


def run_label_session(session: LabelSession, again: str) -> ExitCode:
    """Let a person label on a terminal. `again`: the command that continues.

    Raises:
        CommandFailed: Interrupted. All labels are kept.
    """
    return TerminalLabelSession(session).run(again)


class TerminalLabelSession(CaseSession[Case]):
    """A session that labels replies or scores."""

    decision, whole = "the label on", _WHOLE

    def __init__(self, session: LabelSession) -> None:
        super().__init__(session)
        self._session = session
        self.note: str | None = None

    def name(self, case: Case) -> str:
        """Return the id of the sample."""
        return case.sample

    def list_keys(self, case: Case) -> Mapping[str, str]:
        """Return the keys with their meanings."""
        return KEYS_OF_REPLIES if case.metric is None else KEYS_OF_SCORES

    def describe(self, case: Case, screen: Screen) -> CaseView:
        """Return a reply, or a score with its reason and evidence."""
        return describe_label_case(case, screen)

    def explain(self, case: Case) -> str:
        """Return what verdicts and keys mean."""
        return f"{_HELP_OF_REPLIES if case.metric is None else _HELP_OF_SCORES}\n\n{_HELP}"

    def begin(self) -> None:
        """Forget the note on the case before."""
        super().begin()
        self.note = None

    def answer(self, case: Case, meaning: str) -> bool:
        """Read a note, or record a verdict."""
        if meaning == _NOTE:
            self._read_note()
            return False
        typed: str | None = ""
        if meaning == LabelVerdict.DISAGREE:
            typed = self.read_text(f"The score that you would have given ({_BACK}):")
        try:
            value = float(typed) if typed else None
        except ValueError:
            self.say(f"'{typed}' is not a number; nothing was recorded")
            return True
        if typed is None:
            self.say("nothing was recorded")
            return True
        self._session.record(case, meaning, value=value, note=self.note)
        self.say(f"{case.sample}: {meaning}; u takes it back")
        return True

    def _read_note(self) -> None:
        note = self.read_text(f"A note for your verdict (Enter: none; {_BACK}):")
        if note is None:
            self.say("the note is unchanged")
            return
        self.note = note or None
        self.say("noted; now decide" if note else "no note")


def describe_label_case(case: Case, screen: Screen, *, hides_score: bool = False) -> CaseView:
    """Return a reply with question, contexts and expected answer, or a score with its reason and evidence."""
    attempt = f" attempt {case.attempt}" if case.attempt > 1 else ""
    head = _build_question(case.exchange.sample.user_input)
    if case.exchange.retrieved_contexts is None:
        head += [build_heading("Contexts"), "  (none are known)", ""]
    tail = [*_build_answers(case, screen), *([] if hides_score else build_score(case))]
    return CaseView(f"{case.dataset}: {case.sample}{attempt}", head, _build_contexts(case, screen), tail)


def _build_question(asked: str | Sequence[Message]) -> list[Any]:
    if isinstance(asked, str):
        return [build_heading("Question"), *build_body(asked), ""]
    turns = (line for turn in asked for line in build_body(f"{turn.role}: {turn.content}"))
    return [build_heading("Conversation"), *turns, ""]


def _build_contexts(case: Case, screen: Screen) -> list[tuple[Any, Any]]:
    """Return the contexts with their headings, and with the words marked that the answer has too."""
    texts = [clean(context) for context in case.exchange.retrieved_contexts or ()]
    spans = [find_shared(text, [case.exchange.response]) for text in texts]
    marked = [build_marked(text, own, screen) for text, own in zip(texts, spans, strict=True)]
    return [(build_heading("Context", _name_context(case, number)), text) for number, text in enumerate(marked, 1)]


def _build_answers(case: Case, screen: Screen) -> list[Any]:
    """Return answer and expected answer, with the words marked that the other one lacks."""
    response, expected = clean(case.exchange.response), [clean(one) for one in case.exchange.sample.references]
    answer = build_marked(response, find_different(response, expected), screen) if expected else response
    parts = [build_heading("Answer"), *(_indent(answer, screen) if response.strip() else ["  (empty)"]), ""]
    for number, one in enumerate(expected):
        marked = build_marked(one, find_different(one, [response]), screen)
        parts += [build_heading("Expected" if not number else "Or"), *_indent(marked, screen), ""]
    return parts


def _indent(text: Any, screen: Screen) -> list[Any]:
    from rich.text import Text

    return list(build_excerpt(Text(text) if isinstance(text, str) else text, None, screen, ""))


def build_score(case: Case) -> list[Any]:
    """Return the judge's score of a case with its reason and evidence; nothing without a value."""
    if case.metric is None or case.score is None or case.score.value is None:
        return []
    judge = f"by {inert(case.identity['judge'].partition(' #')[0])}" if "judge" in case.identity else ""
    parts: list[Any] = [build_heading(f"Score: {inert(case.metric.name)}", judge), f"  {_say_value(case.score)}"]
    if case.score.reason:
        parts += build_body(case.score.reason)
    return [*parts, *_build_evidence(case.score.evidence_or_none), ""]


def _say_value(score: Score) -> str:
    said = f"{score.value:.4g}"
    return f"{said}, the mean of {', '.join(f'{one:.4g}' for one in score.repeats)}" if len(score.repeats) > 1 else said


def _build_evidence(evidence: Any) -> list[Any]:
    """Return the basis of a score: of lists of objects a line for each, all else as JSON."""
    if evidence is None:
        return []
    parts: list[Any] = [build_heading("Evidence")]
    groups = evidence.items() if isinstance(evidence, dict) else [("", evidence)]
    for name, value in groups:
        rows = value if isinstance(value, list) else [value]
        parts += [f"  {inert(str(name))}"] if name else []
        parts += [f"  {number}. {_say_evidence(row)}" for number, row in enumerate(rows, 1)]
    return parts


def _say_evidence(row: Any) -> str:
    if isinstance(row, dict):
        return "; ".join(f"{inert(str(key))}: {_say_evidence(value)}" for key, value in row.items())
    return inert(row) if isinstance(row, str) else visible(render_line(row))


def _name_context(case: Case, number: int) -> str:
    ids = case.exchange.ranking or ()
    return f"{number}  {inert(ids[number - 1])}" if number <= len(ids) else f"{number}"
