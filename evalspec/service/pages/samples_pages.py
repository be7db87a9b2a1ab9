"""Pages of samples: the list of a run with filters, and one sample with all its texts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse
from msgspec.structs import replace

from evalspec.reports.markup.elements import Element, chip, el
from evalspec.reports.markup.elements import name as isolate
from evalspec.reports.markup.run_content import MOST_REASONS, RunContent
from evalspec.reports.markup.sample_content import Limits, find_state, render_latency, show_scores
from evalspec.reports.markup.samples import draw_cells, draw_columns
from evalspec.reports.markup.text_budget import TextBudget
from evalspec.reports.markup.views import frame_table
from evalspec.reports.view.parts import Words
from evalspec.service.cursors import Cursor, cut_page, decode_cursor
from evalspec.service.pages.labels_pages import show_labelling
from evalspec.service.pages.run_sources import list_tags, read_content, show_details
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import Visit, Visitor
from evalspec.service.parameters import AddressQuery
from evalspec.service.problems import not_found
from evalspec.service.sample_index import SampleRow
from evalspec.service.sample_pages import LEAST_TEXT, SampleFilter, find_sample, list_samples
from evalspec.verdict.wording import is_latency

ROUTER = APIRouter(include_in_schema=False)

_SAMPLES_SHOWN = 50
_COLUMNS = 5
_METRICS_OFFERED = 100
_STATES = {"failed": "failed", "beyond": "beyond threshold"}
_TEXT_BYTES = 110_000
_MOST_DIGITS = 12
_FILTERS = ("reason", "state", "dataset", "metric", "tag", "slice", "text")
_CHOICES = {"reason": tuple(map(str, range(MOST_REASONS))), "state": _STATES}
_OF_LIST = AddressQuery(*_FILTERS, **_CHOICES)
_OF_SAMPLE = AddressQuery(
    *("dataset", "id", "at", "whole", *(f"in_{name}" for name in _FILTERS)),
    **{f"in_{name}": values for name, values in _CHOICES.items()},
)


@ROUTER.get("/runs/{run_id}/samples")
def list_run_samples(
    run_id: str, visit: Visitor, given: Annotated[dict[str, str], Depends(_OF_LIST)], cursor: Cursor = None
) -> HTMLResponse:
    """Show samples of a run, in its order."""
    content, folder = read_content(visit.access, run_id), visit.access.runs.find_folder(run_id)
    chosen = _pick_filters(given)
    place = decode_cursor(cursor, int)
    wanted = replace(_to_filter(chosen), after=-1 if place is None else place[0])
    is_short = 0 < len(chosen.get("text", "")) < LEAST_TEXT
    found = [] if is_short else list_samples(folder, wanted, _SAMPLES_SHOWN + 1)
    shown, following = cut_page(found, _SAMPLES_SHOWN, lambda row: (row.position,))
    metrics = _choose_columns(content, shown, chosen.get("metric"))
    return render_page(
        "samples.html",
        visit,
        run_id=run_id,
        heading=content.agent or "Run",
        has_texts=content.has_texts,
        total=content.samples,
        samples=_draw_table(visit, run_id, content, shown, metrics, chosen),
        count=len(shown),
        chosen=chosen,
        states=_STATES,
        datasets=list(content.limits),
        all_metrics=list(_list_metrics(content))[:_METRICS_OFFERED],
        tags=list_tags(folder),
        least_text=LEAST_TEXT if is_short else None,
        next_page=visit.link_run(run_id, "/samples", **chosen, cursor=following) if following else None,
        is_first=cursor is None,
        reason=_find_reason(content, wanted.reason),
    )


def _draw_table(
    visit: Visit,
    run_id: str,
    content: RunContent,
    rows: Sequence[SampleRow],
    metrics: list[str],
    chosen: Mapping[str, str],
) -> Element:
    room, kept = TextBudget(_TEXT_BYTES), {f"in_{key}": value for key, value in chosen.items()}

    def draw_row(row: SampleRow) -> Element:
        result, limits = row.result, content.limits.get(row.dataset, {})
        address = visit.link_sample(run_id, row.dataset, result.id, row.position, **kept)
        link = [
            el("a", isolate(room.clip(result.id)), href=address),
            (" ", el("small", isolate(room.clip(row.dataset)), class_="inline")) if len(content.limits) > 1 else None,
            None if row.question is None else el("span", row.question, class_="question", dir="auto"),
        ]
        scores = show_scores(result, metrics, limits)
        state = chip(*find_state(result, limits))
        return draw_cells(link, state, scores, render_latency(result.latency_ms), result.tags[:8], room)

    head = draw_columns(metrics, room)
    return frame_table("Samples of the run", head, map(draw_row, rows), "cards list samples")


@ROUTER.get("/runs/{run_id}/sample")
def show_run_sample(run_id: str, visit: Visitor, given: Annotated[dict[str, str], Depends(_OF_SAMPLE)]) -> HTMLResponse:
    """Show one sample: question, contexts, answer beside the expected one, scores, evidence and times."""
    content, folder = read_content(visit.access, run_id), visit.access.runs.find_folder(run_id)
    chosen = _pick_filters(given, prefix="in_")
    dataset, id = given.get("dataset", ""), given.get("id", "")
    if "at" in given:
        dataset, id = find_at(folder, given["at"])
    found = find_sample(folder, dataset, id)
    if found is None:
        raise not_found(f"run {run_id} has no such sample", "its id or dataset is another one")
    limits: Limits = content.limits.get(dataset, {})
    wanted, position = _to_filter(chosen), found.row.position
    previous = list_samples(folder, replace(wanted, before=position), 1)
    following = list_samples(folder, replace(wanted, after=position), 1)
    return render_page(
        "sample.html",
        visit,
        run_id=run_id,
        sample=show_details(found, limits),
        file=next((charts.file for charts in content.charts if charts.dataset == dataset), None),
        has_several=len(content.limits) > 1,
        labelling=show_labelling(visit, run_id, found),
        list_link=visit.link_run(run_id, "/samples", **chosen),
        previous=_link_neighbour(visit, run_id, previous, chosen),
        following=_link_neighbour(visit, run_id, following, chosen),
        room=TextBudget(
            None if "whole" in given else _TEXT_BYTES, visit.link_run(run_id, "/sample", at=position, whole=1)
        ),
    )


def find_at(folder: Path, at: str) -> tuple[str, str]:
    """Return dataset and id of the sample at a position, empty if there is none."""
    if not at.isdecimal() or len(at) > _MOST_DIGITS:
        return "", ""
    rows = list_samples(folder, SampleFilter(after=int(at) - 1), 1)
    return next(((row.dataset, row.result.id) for row in rows), ("", ""))


def _link_neighbour(visit: Visit, run_id: str, rows: list[SampleRow], chosen: Mapping[str, str]) -> str | None:
    kept = {f"in_{key}": value for key, value in chosen.items()}
    places = (visit.link_sample(run_id, row.dataset, row.result.id, row.position, **kept) for row in rows)
    return next(places, None)


def _pick_filters(given: Mapping[str, str], prefix: str = "") -> dict[str, str]:
    """Return the filters of a list in the query of an address."""
    return {name: given[f"{prefix}{name}"] for name in _FILTERS if given.get(f"{prefix}{name}")}


def _to_filter(chosen: Mapping[str, str]) -> SampleFilter:
    state, reason = chosen.get("state"), chosen.get("reason")
    return SampleFilter(
        chosen.get("dataset"),
        chosen.get("metric"),
        state == "failed",
        state == "beyond",
        tuple(filter(None, [chosen.get("tag")])),
        tuple(filter(None, [chosen.get("slice")])),
        chosen.get("text"),
        reason=None if reason is None else int(reason),
    )


def _find_reason(content: RunContent, number: int | None) -> Words | None:
    reasons = content.view.reasons
    return reasons[number] if number is not None and number < len(reasons) else None


def _list_metrics(content: RunContent) -> dict[str, None]:
    return dict.fromkeys(metric for limits in content.limits.values() for metric in limits)


def _choose_columns(content: RunContent, shown: Sequence[SampleRow], metric: str | None) -> list[str]:
    """Return the metrics of the shown samples that have a column: the chosen one, then those with a limit."""
    known: dict[str, bool] = {}
    for dataset in dict.fromkeys(row.dataset for row in shown):
        for name, limits in content.limits.get(dataset, {}).items():
            if is_latency(name) and name != metric:  # the latency has a column of its own
                continue
            known[name] = known.get(name, False) or bool(limits)
    ordered = sorted(known, key=lambda name: (name != metric, not known[name]))
    return ordered[:_COLUMNS]
