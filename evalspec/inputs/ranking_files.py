"""Strict readers of TREC and BEIR files: judgements (qrels) and runs, plain or gz. Every bad line is reported.

Fields are separated by one or more white space characters. Ids are text: `12` and `012` are two documents.
"""

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path

from msgspec import Struct, field

from evalspec.base.errors import Problem
from evalspec.base.jsonl import parse_json, read_lines

Qrels = dict[str, dict[str, int]]
"""{query: {document: grade}}. 0: judged not relevant. Absent: unjudged."""

ScoredRun = dict[str, dict[str, float]]
"""{query: {document: score}} in the order of the file. `measures.rank_documents` returns the ranking."""

_COLUMNS, _RANKED_COLUMNS = 6, 3
SHOWN = 20
"""The number of bad lines that are shown. Further ones are counted."""

_BOM = b"\xef\xbb\xbf"
_BEIR_HEADER = [b"query-id", b"corpus-id", b"score"]
_GRADE = re.compile(rb"([+-]?\d{1,9})(?:\.0*)?")
_JSON_KEYS = ("query-id", "corpus-id", "score")
_COMMENT = b"#"
_QRELS_FORM = "a line is: query 0 document grade (TREC), or BEIR's header and then query, document, grade between tabs"
_RUN_FORM = "a line is: query Q0 document rank score tag (TREC), or query, document and rank (MS MARCO)"


class GroundTruth(Struct, frozen=True):
    """Judgements by query, and their file. `groups`: AND/OR ground truth of the queries that have it.

    `left_out`: number of judged queries that a filter left out.
    """

    qrels: Mapping[str, Mapping[str, int]]
    shown_as: str
    groups: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    left_out: int = 0


class _BadLine(Exception):
    """An invalid line, with its problem and the fix."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class _Findings:
    """The problems of one file. The first ones are listed, the others counted."""

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
    """Return whether the beginning of an unpacked file looks like TREC or BEIR judgements."""
    first = find_first_line(head)
    fields = first.split()
    if _is_beir_header(first) or _is_json_judgement(first):
        return True
    return len(fields) == 4 and _GRADE.fullmatch(fields[3]) is not None


def find_first_line(head: bytes) -> bytes:
    """Return the first line that is neither blank nor a comment; empty if there is none."""
    lines = (line.strip() for line in head.removeprefix(_BOM).splitlines())
    return next((line for line in lines if line and not line.startswith(_COMMENT)), b"")


def is_json_line(line: bytes) -> bool:
    """Return whether a line, perhaps cut off, is meant as a JSON object. An id of TREC may begin with a brace too."""
    stripped = line.strip()
    return stripped.startswith(b"{") and (stripped.endswith(b"}") or stripped[1:].lstrip().startswith(b'"'))


def looks_like_run(head: bytes) -> bool:
    """Return whether the beginning of an unpacked file may be a run: five columns or more, or MS MARCO's three."""
    first = find_first_line(head)
    fields = first.split()
    if is_json_line(first):
        return False
    return len(fields) >= 5 or (len(fields) == 3 and fields[2].isdigit())


def _is_json_judgement(line: bytes) -> bool:
    return is_json_line(line) and all(b'"%s"' % key.encode() in line for key in _JSON_KEYS)


def read_qrels(path: Path, shown_as: str, problems: list[Problem], warnings: list[Problem]) -> Qrels:
    """Return judgements from TREC's four columns, from BEIR's TSV with a header and three columns, or from its JSONL.

    Lines that begin with # and are no judgements are comments, which a warning counts. A negative grade means unjudged,
    as in trec_eval: the document is left out, and a warning counts them. A query with negative grades only is kept,
    without documents. Errors are appended to `problems`.
    """
    findings = _Findings(problems, shown_as)
    qrels: Qrels = {}
    unjudged: list[int] = []
    comments: list[int] = []
    beir = False
    for position, (number, line) in enumerate(read_lines(path, shown_as, problems, _QRELS_FORM)):
        if position == 0 and _is_beir_header(line):
            beir = True
            continue
        try:
            query, document, grade = _parse_judgement(line, beir)
        except _BadLine as bad:
            if line.startswith(_COMMENT):
                comments.append(number)
                continue
            findings.add(number, str(bad), bad.fix)
            continue
        grades = qrels.setdefault(query, {})
        if document in grades:
            message = f"document '{document}' has duplicate judgements for query '{query}'"
            findings.add(number, message, "remove one of the lines")
        grades[document] = grade
        if grade < 0:
            unjudged.append(number)
    findings.close()
    _warn_of_comments(comments, shown_as, warnings)
    if unjudged:
        message = f"negative grades mean unjudged, as in trec_eval; {len(unjudged):,} left out"
        warnings.append(Problem(message, "", shown_as, unjudged[0]))
    if beir and not qrels and not problems:
        problems.append(Problem("the file has a header but no judgements", _QRELS_FORM, shown_as))
    return {query: {name: grade for name, grade in grades.items() if grade >= 0} for query, grades in qrels.items()}


def read_run(path: Path, shown_as: str, problems: list[Problem], warnings: list[Problem]) -> ScoredRun:
    """Return a run from six columns. It is ordered by score, as in trec_eval. A warning counts contradicting ranks.

    The last column may have blanks. In MS MARCO's three columns (query, document, rank), the score is the negated rank.
    Lines that begin with # and are no results are comments, which a warning counts.

    Errors are appended to `problems`: duplicate documents in a query, scores that are not finite numbers, and so on.
    """
    findings = _Findings(problems, shown_as)
    run: ScoredRun = {}
    scores: dict[str, float] = {}
    disagreeing: list[int] = []
    comments: list[int] = []
    is_ranked = None
    last_query, last_rank, last_score = b"", 0, 0.0
    for number, line in read_lines(path, shown_as, problems, _RUN_FORM):
        if is_ranked is None and not line.startswith(_COMMENT):
            is_ranked = len(line.split()) == _RANKED_COLUMNS
        try:
            query, _, name, rank_text, score_text, _ = (_add_columns(line) if is_ranked else line).split(None, 5)
            document, rank, score = name.decode(), int(rank_text), float(score_text)
            is_number = isfinite(score) and b"_" not in rank_text and b"_" not in score_text
            if query != last_query:
                scores = run.setdefault(query.decode(), {})
        except ValueError:
            is_number = False
        if not is_number:
            if line.startswith(_COMMENT):
                comments.append(number)
            else:
                findings.add(number, *(_explain_ranked(line) if is_ranked else _explain_result(line)))
            continue
        if query == last_query and (
            score > last_score if rank > last_rank else score < last_score and rank < last_rank
        ):
            disagreeing.append(number)
        last_query, last_rank, last_score = query, rank, score
        if document in scores:
            message = f"duplicate document '{document}' in query '{query.decode()}'"
            findings.add(number, message, "remove one of the lines")
        scores[document] = score
    findings.close()
    _warn_of_comments(comments, shown_as, warnings)
    if disagreeing:
        warnings.append(warn_of_ranks(len(disagreeing), shown_as, disagreeing[0]))
    return run


def _add_columns(line: bytes) -> bytes:
    """Return a line of MS MARCO's three columns in TREC's six.

    Raises:
        ValueError: the line has another number of columns, or its rank is not a number from 1.
    """
    query, document, rank = line.split()
    if not rank.isdigit() or not int(rank):
        raise ValueError
    return b"%s Q0 %s %s -%s run" % (query, document, rank, rank)


def _explain_ranked(line: bytes) -> tuple[str, str]:
    fields = line.split()
    if len(fields) != _RANKED_COLUMNS:
        return f"{len(fields)} fields instead of {_RANKED_COLUMNS}, as in the first line", _RUN_FORM
    return f"'{_show(line.strip())}' is not query, document and rank", "ranks are whole numbers from 1"


def _warn_of_comments(lines: list[int], shown_as: str, warnings: list[Problem]) -> None:
    if lines:
        warnings.append(Problem(f"comments are skipped: {len(lines):,}", "", shown_as, lines[0]))


def warn_of_ranks(count: int, shown_as: str, first: int) -> Problem:
    """Return the warning that ranks contradict scores, with the number of lines and the first of them."""
    message = f"the rank contradicts the score, compared with the line before, on {count:,} line{'s' * (count > 1)}"
    return Problem(message, "the score counts, as in trec_eval; the rank is ignored", shown_as, first)


def _is_beir_header(line: bytes) -> bool:
    return [field.strip().lower() for field in line.split(b"\t")] == _BEIR_HEADER


def _parse_judgement(line: bytes, beir: bool) -> tuple[str, str, int]:
    if is_json_line(line):
        query, document, grade = _parse_json_judgement(line)
    elif beir:
        fields = [field.strip() for field in line.split(b"\t")]
        if len(fields) != 3 or not all(fields):
            raise _BadLine(f"{len(fields)} fields between tabs instead of 3", "a line is: query, document, grade")
        query, document, grade = fields
    else:
        fields = line.split()
        if len(fields) != 4:
            raise _BadLine(f"{len(fields)} fields instead of 4", _QRELS_FORM)
        query, _, document, grade = fields
    whole = _GRADE.fullmatch(grade)
    if whole is None:
        raise _BadLine(f"the grade '{_show(grade)}' is not a whole number", "grades are 0, 1, 2 … of up to nine digits")
    return _decode(query), _decode(document), int(whole[1])


def _parse_json_judgement(line: bytes) -> tuple[bytes, bytes, bytes]:
    form = 'a line is: {"query-id": …, "corpus-id": …, "score": …}'
    try:
        record = parse_json(line.strip())
    except (ValueError, RecursionError) as error:
        raise _BadLine(f"not valid JSON: {error}", form) from None
    values = [record.get(key) if isinstance(record, dict) else None for key in _JSON_KEYS]
    if not all(isinstance(value, str) and value for value in values[:2]):
        raise _BadLine("query-id or corpus-id is not text", f"{form}; put ids in quotes")
    if isinstance(values[2], bool) or not isinstance(values[2], int | float):
        raise _BadLine("the score is not a number", form)
    query, document, grade = (str(value).encode("utf-8", "surrogatepass") for value in values)
    return query, document, grade


def _explain_result(line: bytes) -> tuple[str, str]:
    """Return the problem of a line of a run, and the fix."""
    fields = line.split()
    if len(fields) < _COLUMNS:
        return f"{len(fields)} fields instead of {_COLUMNS}", _RUN_FORM
    query, _, document, rank, score, *_ = fields
    try:
        _decode(query), _decode(document)
    except _BadLine as bad:
        return str(bad), bad.fix
    if not re.fullmatch(rb"[+-]?\d{1,4000}", rank):
        return f"the rank '{_show(rank)}' is not a whole number", _RUN_FORM
    return (
        f"the score '{_show(score)}' is not a finite number",
        "NaN and infinity cannot be ranked; fix the program that wrote it",
    )


def _decode(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise _BadLine(f"the id '{_show(text)}' is not UTF-8 text", "save the file as UTF-8") from None


def _show(text: bytes) -> str:
    shown = text.decode("utf-8", "backslashreplace")
    return shown if len(shown) <= 40 else f"{shown[:39]}…"
