"""TREC and BEIR files read strictly: judgements (qrels) and runs, plain or gz, every bad line named.

Fields are separated by any white space, one or more characters of it; ids are text: `12` and `012` are two documents.
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from math import isfinite
from pathlib import Path

from evalspec.errors import Problem
from evalspec.jsonl import MAX_LINE_BYTES, number_lines, open_unpacked

Qrels = dict[str, dict[str, int]]
"""{query: {document: grade}}; 0 is judged not relevant, absent is unjudged."""

ScoredRun = dict[str, dict[str, float]]
"""{query: {document: score}} in the order of the file, which is no ranking: `hits.rank_documents` makes that."""

SHOWN = 20
"""Of a thousand bad lines this many are shown, the others counted."""

_BOM = b"\xef\xbb\xbf"
_BEIR_HEADER = [b"query-id", b"corpus-id", b"score"]
_GRADE = re.compile(rb"[+-]?\d{1,9}")
_QRELS_FORM = "a line is: query 0 document grade (TREC), or BEIR's header and then query, document, grade between tabs"
_RUN_FORM = "a line is: query Q0 document rank score tag"


class _BadLine(Exception):
    """A line that cannot be used: what is wrong, and how to mend it."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class _Findings:
    """The problems of one file, the first of them in full."""

    def __init__(self, problems: list[Problem], shown_as: str) -> None:
        self._problems = problems
        self._shown_as = shown_as
        self._count = 0

    def add(self, line: int, message: str, fix: str) -> None:
        self._count += 1
        if self._count <= SHOWN:
            self._problems.append(Problem(message, fix, self._shown_as, line))

    def close(self) -> None:
        if self._count > SHOWN:
            self._problems.append(Problem(f"and {self._count - SHOWN:,} more bad lines", "", self._shown_as))


def looks_like_qrels(head: bytes) -> bool:
    """Whether the beginning of a file, unpacked, is that of judgements as TREC or BEIR write them."""
    first = next((line for line in head.removeprefix(_BOM).splitlines() if line.strip()), b"")
    fields = first.split()
    return _is_beir_header(first) or (len(fields) == 4 and _GRADE.fullmatch(fields[3]) is not None)


def read_qrels(path: Path, shown_as: str, problems: list[Problem], warnings: list[Problem]) -> Qrels:
    """Read judgements: TREC's four columns, or BEIR's TSV of three under its header.

    A negative grade means unjudged, as for trec_eval: the document is left out, and a warning counts them. A query
    that has only such stays, without documents. Whatever is wrong goes to `problems`.
    """
    findings = _Findings(problems, shown_as)
    qrels: Qrels = {}
    unjudged: list[int] = []
    beir = False
    for position, (number, line) in enumerate(_numbered_lines(path, shown_as, problems, _QRELS_FORM)):
        if position == 0 and _is_beir_header(line):
            beir = True
            continue
        try:
            query, document, grade = _parse_judgement(line, beir)
        except _BadLine as bad:
            findings.add(number, str(bad), bad.fix)
            continue
        grades = qrels.setdefault(query, {})
        if document in grades:
            message = f"document '{document}' is judged twice for query '{query}'"
            findings.add(number, message, "keep one of the lines")
        grades[document] = grade
        if grade < 0:
            unjudged.append(number)
    findings.close()
    if unjudged:
        message = f"negative grades mean unjudged, as for trec_eval: {len(unjudged):,} left out"
        warnings.append(Problem(message, "", shown_as, unjudged[0]))
    if beir and not qrels and not problems:
        problems.append(Problem("the file holds a header and no judgement", _QRELS_FORM, shown_as))
    return {query: {name: grade for name, grade in grades.items() if grade >= 0} for query, grades in qrels.items()}


def read_run(path: Path, shown_as: str, problems: list[Problem], warnings: list[Problem]) -> ScoredRun:
    """Read a run of six columns. The scores order it, as for trec_eval; a warning counts lines whose rank disagrees.

    Whatever is wrong goes to `problems`: a document twice in one query, a score that is not a finite number …
    """
    findings = _Findings(problems, shown_as)
    run: ScoredRun = {}
    scores: dict[str, float] = {}
    disagreeing: list[int] = []
    last_query, last_rank, last_score = b"", 0, 0.0
    for number, line in _numbered_lines(path, shown_as, problems, _RUN_FORM):
        try:
            query, _, name, rank_text, score_text, _ = line.split()
            document, rank, score = name.decode(), int(rank_text), float(score_text)
            is_number = isfinite(score) and b"_" not in rank_text and b"_" not in score_text
            if query != last_query:
                scores = run.setdefault(query.decode(), {})
        except ValueError:
            is_number = False
        if not is_number:
            findings.add(number, *_explain_result(line))
            continue
        if query == last_query and (
            score > last_score if rank > last_rank else score < last_score and rank < last_rank
        ):
            disagreeing.append(number)
        last_query, last_rank, last_score = query, rank, score
        if document in scores:
            message = f"document '{document}' stands twice in query '{query.decode()}'"
            findings.add(number, message, "keep one of the lines")
        scores[document] = score
    findings.close()
    if disagreeing:
        warnings.append(warn_of_ranks(len(disagreeing), shown_as, disagreeing[0]))
    return run


def warn_of_ranks(count: int, shown_as: str, first: int) -> Problem:
    """The warning that the rank column does not follow the scores: on how many lines, and on which first."""
    message = f"the rank contradicts the score, compared with the line before, on {count:,} line{'s' * (count > 1)}"
    return Problem(message, "the score decides, as for trec_eval; the rank is ignored", shown_as, first)


def _numbered_lines(path: Path, shown_as: str, problems: list[Problem], form: str) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers. What keeps the file from being read is one problem."""
    number, empty = 0, True
    try:
        with open_unpacked(path) as stream:
            for number, line in number_lines(stream):
                if len(line) > MAX_LINE_BYTES:
                    message = f"the line is longer than {MAX_LINE_BYTES:,} bytes"
                    problems.append(Problem(message, form, shown_as, number))
                    return
                text = line.removeprefix(_BOM) if number == 1 else line
                if text and not text.isspace():
                    empty = False
                    yield number, text
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"the gz file breaks off or is damaged after line {number:,}: {error}"
        problems.append(Problem(message, "pack or download it again", shown_as))
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "no such file" if missing else f"cannot be read: {error.strerror}"
        problems.append(Problem(reason, "check the path", shown_as))
    else:
        if empty:
            problems.append(Problem("the file is empty", form, shown_as))


def _is_beir_header(line: bytes) -> bool:
    return [field.strip().lower() for field in line.split(b"\t")] == _BEIR_HEADER


def _parse_judgement(line: bytes, beir: bool) -> tuple[str, str, int]:
    if beir:
        fields = [field.strip() for field in line.split(b"\t")]
        if len(fields) != 3 or not all(fields):
            raise _BadLine(f"{len(fields)} fields between tabs instead of 3", "a line is: query, document, grade")
        query, document, grade = fields
    else:
        fields = line.split()
        if len(fields) != 4:
            raise _BadLine(f"{len(fields)} fields instead of 4", _QRELS_FORM)
        query, _, document, grade = fields
    if not _GRADE.fullmatch(grade):
        raise _BadLine(f"the grade '{_show(grade)}' is not a whole number", "grades are 0, 1, 2 … of up to nine digits")
    return _decode(query), _decode(document), int(grade)


def _explain_result(line: bytes) -> tuple[str, str]:
    """What is wrong with a line of a run, and how to mend it."""
    fields = line.split()
    if len(fields) != 6:
        return f"{len(fields)} fields instead of 6", _RUN_FORM
    query, _, document, rank, score, _ = fields
    try:
        _decode(query), _decode(document)
    except _BadLine as bad:
        return str(bad), bad.fix
    if not re.fullmatch(rb"[+-]?\d{1,4000}", rank):
        return f"the rank '{_show(rank)}' is not a whole number", _RUN_FORM
    return f"the score '{_show(score)}' is not a finite number", "NaN and infinity cannot be ranked; mend what wrote it"


def _decode(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise _BadLine(f"the id '{_show(text)}' is not UTF-8 text", "save the file as UTF-8") from None


def _show(text: bytes) -> str:
    shown = text.decode("utf-8", "backslashreplace")
    return shown if len(shown) <= 40 else f"{shown[:39]}…"
