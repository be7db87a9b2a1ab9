"""`evalspec label`: what a person says about the replies and scores of a run."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.base.foreign_text import inert
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
from evalspec.cli.streams import notify
from evalspec.curation.labels.session import LabelSession
from evalspec.model.corrections import DrawKind
from evalspec.model.labels import Label, LabelVerdict
from evalspec.runs.store.run_store import STORE, RunStore

_OF_ONE = ("attempt", "blind", "note", "value", "verdict")
_OF_PARTS = ("below_threshold", "failed", "sample_size", "tags", "where")
_OF_DRAWS = ("new", "random", "until_decided")
_OF_SESSIONS = (*_OF_PARTS, *_OF_DRAWS, "seed", "stratify")


@click.command("label", cls=OrderedCommand)
@click.argument("run", shell_complete=complete_run)
@option("--metric", metavar="METRIC", help="Judge the scores of this metric; without it, the replies.")
@dataset_option
@option(
    "--random", type=click.IntRange(min=1), metavar="N", help="Score N random replies; the judge's score is hidden."
)
@option(
    "--stratify",
    type=click.Choice(["judge"]),
    help="With --random: after 20 random replies, draw from each score that the judge gave; see above.",
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

    With --stratify judge, 20 replies are drawn at random. The rest is drawn from each score that the judge gave: at
    least 8 of each, even if that exceeds N, and more where people's scores vary. If the judge is good, the corrected
    mean gets a narrower interval from as many labels.

    With --sample and --verdict, it records one label without a session. A later label of yours on the same reply or
    score replaces the earlier one. A label remembers what it judged: sample, reply, metric, judge, prompt, score.

    Without a terminal, `--random N --json` prints the drawn replies that you have not labelled, without the judge's
    scores. Label each with the same --random and --seed, --sample ID, and --verdict rated --value SCORE.

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
      evalspec label latest --metric faithfulness --random 50 --json
      evalspec label latest --metric faithfulness --random 50 \\
        --sample refund --verdict rated --value 0.5
    """
    given_here = {
        name
        for name in (*_OF_ONE, *_OF_SESSIONS)
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    by = find_labeller(person)
    if given["sample"] is not None:
        draw = {"random", "seed"} if given["random"] else set[str]()
        _refuse(given_here & {*_OF_SESSIONS} - draw, "belongs to a session", "leave out --sample, or this option")
        _check_draws(given_here, given)
        return _label_one(run, by, given, as_json=as_json)
    _refuse(given_here & {*_OF_ONE}, "needs --sample", "add --sample ID, or leave it out")
    _check_draws(given_here, given)
    if as_json and given["random"]:
        from msgspec import to_builtins

        from evalspec.curation.labels.drawn_session import list_drawn

        of_run = {"by": by, "seed": given["seed"], "datasets": given["datasets"]}
        drawn = list_drawn(run, given["metric"], given["random"], is_stratified=bool(given["stratify"]), **of_run)
        emit_document({"drawn": to_builtins(drawn)})
        return ExitCode.OK
    if as_json:
        fix = "draw with --metric METRIC --random N --json, or add --sample ID --verdict VERDICT"
        raise InvalidInput(Problem("a session prints no document", fix, field="--json"))
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
    from evalspec.curation.labels.drawn_session import label

    datasets: Sequence[str] = given["datasets"]
    if given["verdict"] is None:
        raise InvalidInput(
            Problem("is missing", "add --verdict good, or without --sample start a session", field="--verdict")
        )
    if len(datasets) > 1:
        raise InvalidInput(Problem("a sample is in one dataset", "name one", field="--dataset"))
    dataset, attempt = datasets[0] if datasets else None, given["attempt"] or 1
    made = label(
        run, given["sample"], given["verdict"], by=by, dataset=dataset, attempt=attempt, metric=given["metric"],
        value=given["value"], note=given["note"], is_blind=given["blind"], random=given["random"], seed=given["seed"],
    )  # fmt: skip
    if as_json:
        from msgspec import to_builtins

        emit_document({"label": to_builtins(made)})
    about = f"{made.sample}{f', {made.metric}' if made.metric else ''}"
    notify(f"{inert(by)}: {inert(about)}: {made.verdict}")
    if (given["blind"] or given["random"]) and not made.is_blind:
        notify("not blind: after an earlier label of yours on it you could see the score")
    if (why := _explain_unused(made)) is not None:
        notify(
            f"this label does not correct the judge: {why}. See `evalspec label RUN --metric METRIC --random N --json`"
        )
    return ExitCode.OK


def _explain_unused(made: Label) -> str | None:
    """Return why a label on the score of a judge does not correct it; None if it may, or if there is no judge."""
    from evalspec.curation.labels.opinions import CHOSEN, IN_SIGHT

    if "judge" not in made.metric_identity or made.verdict is LabelVerdict.WITHDRAWN:
        return None
    if not made.is_blind:
        return f"it was {IN_SIGHT}"
    return f"the reply was {CHOSEN}" if made.draw.kind is DrawKind.CHOSEN else None


def _open_session(run: str, by: str, given: Mapping[str, Any]) -> ExitCode:
    from evalspec.cli.label_screen import require_label_terminal, run_label_session
    from evalspec.curation.labels.cases import LabelledRun
    from evalspec.curation.labels.judged_run import CaseFilter
    from evalspec.inputs.datasets.selection import parse_selection

    require_label_terminal(_describe_one(run, by, given))
    if given["random"] or given["until_decided"] or given["new"]:
        from evalspec.cli.rating import open_drawn_session

        return open_drawn_session(run, by, given, _describe_again)
    size, seed = given["sample_size"], given["seed"]
    selection = parse_selection(tags=given["tags"], where=given["where"], size=size, seed=seed)
    wanted = CaseFilter(given["metric"], given["datasets"], selection, given["failed"], given["below_threshold"])
    opened = LabelledRun(RunStore(STORE), run)
    return run_label_session(LabelSession(opened, by, wanted), _describe_again(opened.id, by, given))


def _describe_one(run: str, by: str, given: Mapping[str, Any]) -> str:
    """Return what to do without a terminal."""
    about = shlex.join(
        ["evalspec", "label", run, "--as", by, *(["--metric", given["metric"]] if given["metric"] else [])]
    )
    if given["until_decided"] or given["new"] or given["stratify"]:
        return f"without one, draw at random: `{about} --random N --json`"
    if given["random"]:
        drawn = f"{about} --random {given['random']} --seed {given['seed']}"
        return (
            f"without one, `{drawn} --json` prints the drawn replies; "
            f"label each: `{drawn} --sample ID --verdict rated --value SCORE`"
        )
    if given["metric"] is None:
        return f"without one: `{about} --sample ID --verdict good`, or bad"
    return f"without one: `{about} --sample ID --verdict agree`, or disagree with --value"


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
