"""Read large run files for the ranks of judged documents, which is all that the measures need.

This module, `plain_lines` and `_compute_ranks` of `hits` are the only places that use tricks for speed.

Why: a run of 7,000 queries × 1,000 documents is a file of 216 MB. Reading it with pyarrow alone takes as long as all of
`evalspec score` does here, and pytrec_eval, which splits the lines in Python, takes 2.7 times as long. The goals and
measurements are in benchmarks/README.md ("Retrieval").

How, for a file of plain lines with each query in one piece:

1. The file is read in blocks of 2 MiB, which are cut after the last whole query (`_Scan._add`). Memory grows with the
   largest query, not with the file.
2. `plain_lines` finds where fields start and end by comparing bytes. No line becomes a Python object.
3. Each document id becomes a 64-bit key, with a random number of its query added (`_Scan._add_queries`). Judged ids
   become keys in the same way. A table of bits, the sieve, drops most lines before the sorted judged keys are searched
   (`_Scan._match`).
4. While scores decrease, a rank is the line's position within its query. Ranks are computed by counting only if scores
   increase or are equal (`_Block.compute_ranks`).

What makes it safe: equal ids have equal keys. Unequal ids could have equal keys as well, so each match is compared byte
by byte. Two equal keys within one query, and everything else that is not plain, raise `NotPlain`. Then the strict
reader of `ranking_files` reads the file from its beginning and reports what is wrong.

How it is proved: tests/ranking/test_run_scan.py reads generated files, whole and damaged, in both ways. The scan has to
give the numbers and warnings of the strict reader, or to give up.
"""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
from msgspec import Struct

from evalspec.base.errors import Problem
from evalspec.base.jsonl import open_unpacked
from evalspec.inputs.ranking_files import warn_of_ranks
from evalspec.scoring.ranking.hits import MISSING, Hits
from evalspec.scoring.ranking.plain_lines import Flags, Floats, Lines, NotPlain, Places, Words, join_texts, split_lines

_BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 1 << 16
"""Bytes of a line beyond the block in which it begins. The strict reader reads a file with longer ones."""
_SIEVE_BITS = 18
"""The sieve has 262,144 entries, and fits into the cache of a core."""
_SIEVE_SHIFT = np.uint64(64 - _SIEVE_BITS)


class ScannedRun(Struct, frozen=True):
    """The hits of a run file. `queries`: their number, with or without judgements."""

    hits: Hits
    queries: int
    warnings: tuple[Problem, ...]


def scan_run(path: Path, shown_as: str, qrels: Mapping[str, Mapping[str, int]]) -> ScannedRun | None:
    """Return the judged documents in a run file; None if the strict reader must read it.

    Memory does not grow with the file, but with its largest query.
    """
    scan = _Scan(qrels)
    try:
        with open_unpacked(path) as stream:
            scan.read(stream)
    except (NotPlain, OSError, EOFError, zlib.error):
        return None
    warnings = (warn_of_ranks(scan.disagreeing, shown_as, scan.first_disagreeing),) if scan.disagreeing else ()
    return ScannedRun(scan.collect(), len(scan.seen), warnings) if scan.seen else None


class _Block(Struct, frozen=True):
    """Lines of whole queries. `begins`: the first line of each query. `query`: the number of each line's query."""

    lines: Lines
    begins: Places
    query: Places
    scores: Floats

    def compute_ranks(self, found: Places) -> Places:
        """Return the ranks of some lines within their queries, by score."""
        together = self.query[1:] == self.query[:-1]
        rising = together & (self.scores[1:] > self.scores[:-1])
        level = together & (self.scores[1:] == self.scores[:-1])
        unclear: Flags = np.isin(np.arange(len(self.begins)), self.query[1:][rising])[self.query]
        unclear[1:] |= level
        unclear[:-1] |= level
        ranks = found - self.begins[self.query[found]] + 1
        for place in np.flatnonzero(unclear[found]):
            ranks[place] = self._rank_among_all(int(found[place]))
        return ranks

    def _rank_among_all(self, line: int) -> int:
        """Return a rank by counting, for scores out of order or equal. Ties are ordered by document id, descending."""
        query = self.query[line]
        begin = int(self.begins[query])
        end = int(self.begins[query + 1]) if query + 1 < len(self.begins) else len(self.lines)
        scores, score = self.scores[begin:end], self.scores[line]
        own = self.lines.document(line)
        equal = np.flatnonzero(scores == score) + begin
        before = sum(self.lines.document(other) > own for other in equal.tolist()) if len(equal) > 1 else 0
        return int(np.count_nonzero(scores > score)) + before + 1


class _Scan:
    """The state of a scan, with the judged documents found so far."""

    def __init__(self, qrels: Mapping[str, Mapping[str, int]]) -> None:
        self.seen: set[str] = set()
        self.disagreeing = 0
        self.first_disagreeing = 0
        self._numbers = {query: number for number, query in enumerate(qrels)}
        documents = [document for judged in qrels.values() for document in judged]
        text, starts, ends = join_texts(documents)
        self._bytes = text.data
        self._starts, self._ends = starts, ends
        self._keys = text.keys(starts, ends)
        self._grades = np.fromiter((grade for judged in qrels.values() for grade in judged.values()), dtype=np.int64)
        self._sizes = np.fromiter(map(len, qrels.values()), dtype=np.int64, count=len(qrels))
        self._firsts = np.cumsum(self._sizes) - self._sizes
        self._retrieved = np.full(len(qrels), MISSING)
        self._found: list[tuple[Places, Places, Places]] = []
        self._lines = 0
        self._random = np.random.default_rng(0)

    def read(self, stream: BinaryIO) -> None:
        """Read a file to its end.

        Raises:
            NotPlain: the strict reader must read the file.
        """
        rest = b""
        while block := stream.read(max(_BLOCK_BYTES, len(rest))):
            end = stream.readline(_LONGEST_LINE)
            text = b"".join((rest, block, end))
            if not text.endswith(b"\n"):
                if len(end) == _LONGEST_LINE:
                    raise NotPlain
                text += b"\n"
            rest = text[self._add(text, is_last=False) :]
        if rest:
            self._add(rest, is_last=True)

    def collect(self) -> Hits:
        """Return all hits, in the order of the judgements."""
        query, rank, judgement = (np.concatenate(parts) for parts in zip(*self._found, strict=True))
        order = np.argsort(query, kind="stable")
        return Hits(
            counts=np.bincount(query, minlength=len(self._sizes)).tolist(),
            ranks=rank[order].tolist(),
            grades=self._grades[judgement[order]].tolist(),
            retrieved=self._retrieved.tolist(),
        )

    def _add(self, text: bytes, *, is_last: bool) -> int:
        """Process whole queries, and return the number of bytes used. The last query may continue in the next block."""
        if not text:
            return 0
        lines = split_lines(text)
        begins = lines.mark_queries()
        used = len(text)
        if not is_last:
            last = int(begins[-1])
            used = int(lines.queries[0][last])
            lines, begins = lines.first(last), begins[:-1]
        if len(lines):
            self._add_queries(lines, begins)
        return used

    def _add_queries(self, lines: Lines, begins: Places) -> None:
        names = lines.query_names(begins)
        if len({*names}) < len(names) or not self.seen.isdisjoint(names):
            raise NotPlain
        self.seen.update(names)
        sizes = np.diff(begins, append=len(lines))
        block = _Block(lines, begins, np.repeat(np.arange(len(begins)), sizes), lines.parse_scores())
        self._check_ranks(block)
        salts = self._random.integers(0, 1 << 64, size=len(begins), dtype=np.uint64)
        keys = lines.text.keys(*lines.documents) + salts[block.query]
        _refuse_twins(keys)
        numbers = np.array(
            [self._numbers.get(name, MISSING) for name in names]
        )  # each query's number in the judgements
        judged = np.flatnonzero(numbers != MISSING)
        self._retrieved[numbers[judged]] = sizes[judged]
        found, judgements = self._match(keys, numbers[judged], salts[judged], lines)
        self._found.append((numbers[block.query[found]], block.compute_ranks(found), judgements))
        self._lines += len(lines)

    def _check_ranks(self, block: _Block) -> None:
        """Count the lines whose rank contradicts their score, compared with the line before."""
        ranks, scores = block.lines.parse_ranks(), block.scores
        both_up = (ranks[1:] > ranks[:-1]) & (scores[1:] > scores[:-1])
        both_down = (ranks[1:] < ranks[:-1]) & (scores[1:] < scores[:-1])
        wrong = np.flatnonzero((both_up | both_down) & (block.query[1:] == block.query[:-1]))
        if len(wrong):
            self.first_disagreeing = self.first_disagreeing or self._lines + int(wrong[0]) + 2
            self.disagreeing += len(wrong)

    def _match(self, keys: Words, numbers: Places, salts: Words, lines: Lines) -> tuple[Places, Places]:
        """Return the lines with a judged document, and the number of each judgement. A sieve skips most lines at once.

        `keys`: those of all lines' documents. `numbers`, `salts`: those of the queries with judgements.
        """
        sizes = self._sizes[numbers]  # the judgements of each query are adjacent, starting at `firsts`
        sought = np.arange(sizes.sum()) + np.repeat(self._firsts[numbers] - (np.cumsum(sizes) - sizes), sizes)
        sought_keys = self._keys[sought] + np.repeat(salts, sizes)
        _refuse_twins(sought_keys)
        order = np.argsort(sought_keys)
        sought, sought_keys = sought[order], sought_keys[order]
        sieve = np.zeros(1 << _SIEVE_BITS, dtype=np.bool_)
        sieve[sought_keys >> _SIEVE_SHIFT] = True
        likely = np.flatnonzero(sieve[keys >> _SIEVE_SHIFT])
        if not len(sought):
            return likely, sought
        places = np.minimum(np.searchsorted(sought_keys, keys[likely]), len(sought) - 1)
        equal = sought_keys[places] == keys[likely]
        found, judgements = likely[equal], sought[places[equal]]
        same = np.array(
            [
                self._document(judgement) == lines.document(line)
                for line, judgement in zip(found.tolist(), judgements.tolist(), strict=True)
            ],
            dtype=np.bool_,
        )
        return found[same], judgements[same]

    def _document(self, judgement: int) -> bytes:
        return self._bytes[self._starts[judgement] : self._ends[judgement]]


def _refuse_twins(keys: Words) -> None:
    """Raise NotPlain if two keys are equal. Keys are salted by query, so equal ones almost always share a query."""
    ordered = np.sort(keys)
    if (ordered[1:] == ordered[:-1]).any():
        raise NotPlain
