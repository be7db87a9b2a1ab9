"""The batches of a scripted provider, as OpenAI and Anthropic publish them. Requests are answered by the judge itself.

    judge.desk.batches                              # all batches, each with .id, .requests and .fate
    judge.desk.fates = ["expired", "in_progress"]   # of the next batches, one each, before `fate` holds again
    judge.desk.faults = {"submit": "drop"}          # once: do it and hang up; or a status, instead of doing it

Fates: ok · in_progress · expired (half of the requests are answered) · cancelled (none is) · failed (the provider
refuses the whole batch; OpenAI only) · errored (the first request is) · malformed (no line of the results is JSON) ·
torn (one is not). Faults are of `upload`, `submit`, `list`, `one` and `results`.
"""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from threading import RLock
from time import time
from typing import Any

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CREDENTIALS = ("authorization", "x-api-key", "anthropic-version")
Answer = tuple[int | None, bytes]
_PAGE = 2
"""Batches a page, so that clients have to turn it."""


@dataclass
class Batch:
    """One batch. `results`: status (None: not processed) and reply by custom id."""

    id: str
    requests: Mapping[str, Any]
    fate: str
    mark: Mapping[str, str] = field(default_factory=dict)
    created: float = field(default_factory=time)
    results: dict[str, tuple[int | None, Any]] = field(default_factory=dict)


class BatchDesk:
    """See the module. `url`: where the provider answers single requests."""

    def __init__(self, url: str, *, is_anthropic: bool = False) -> None:
        self._url, self._is_anthropic = url, is_anthropic
        self.batches: list[Batch] = []
        self.files: dict[str, bytes] = {}
        self.fate = "ok"
        self.fates: Sequence[str] = []
        self.faults: dict[str, Any] = {}
        self.keeps_marks = True
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self._lock = RLock()

    @property
    def submitted(self) -> list[str]:
        """The custom ids of all batches."""
        return [name for batch in self.batches for name in batch.requests]

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
        """Status and body of the answer to a request; None if it is not about batches. No status: hang up."""
        place, _, query = path.partition("?")
        routes = self._list_routes()
        for (verb, pattern), (name, answer) in routes.items():
            found = re.fullmatch(pattern, place)
            if verb == method and found:
                self.asked.append(name)
                fault = self.faults.pop(name, None)
                if isinstance(fault, int):
                    return fault, _encode({"error": {"type": "api_error", "message": "not today"}})
                with self._lock:
                    status, content = answer(found, query, headers, body)
                return (None, b"") if fault == "drop" else (status, content)
        return None

    def _list_routes(self) -> dict[tuple[str, str], Any]:
        base = "/v1/messages/batches" if self._is_anthropic else "/v1/batches"
        routes = {
            ("POST", base): ("submit", self._submit_messages if self._is_anthropic else self._submit_file),
            ("GET", base): ("list", self._list),
            ("GET", rf"{base}/(\w+)"): ("one", self._show),
        }
        if self._is_anthropic:
            return routes | {("GET", rf"{base}/(\w+)/results"): ("results", self._give_results)}
        return routes | {
            ("POST", "/v1/files"): ("upload", self._upload),
            ("GET", r"/v1/files/(\w+)/content"): ("results", self._give_file),
        }

    def _complain(self, what: str) -> tuple[int, bytes]:
        self.complaints.append(what)
        return 400, _encode({"error": {"type": "invalid_request_error", "message": what}})

    def _upload(self, _found: Any, _query: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        form: Any = message_from_bytes(b"Content-Type: " + headers["content-type"].encode() + b"\r\n\r\n" + body)
        parts = {part.get_param("name", header="content-disposition"): part for part in form.get_payload()}
        if set(parts) != {"purpose", "file"} or parts["purpose"].get_payload() != "batch":
            return self._complain(f"files: {sorted(map(str, parts))}")
        name = f"file{len(self.files)}"
        self.files[name] = parts["file"].get_payload(decode=True)
        return 200, _encode({"id": name, "object": "file", "purpose": "batch"})

    def _submit_file(self, _found: Any, _query: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        asked = json.loads(body)
        if set(asked) != {"input_file_id", "endpoint", "completion_window", "metadata"}:
            return self._complain(f"batches: {sorted(asked)}")
        lines = [json.loads(line) for line in self.files[asked["input_file_id"]].splitlines() if line]
        for line in lines:
            if set(line) != {"custom_id", "method", "url", "body"} or line["url"] != asked["endpoint"]:
                return self._complain(f"a line of the file: {sorted(line)}")
        return self._begin({line["custom_id"]: line["body"] for line in lines}, len(lines), headers, asked["metadata"])

    def _submit_messages(self, _found: Any, _query: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        asked = json.loads(body)
        if set(asked) != {"requests"} or any(set(one) != {"custom_id", "params"} for one in asked["requests"]):
            return self._complain("requests: custom_id and params")
        requests = {one["custom_id"]: one["params"] for one in asked["requests"]}
        return self._begin(requests, len(asked["requests"]), headers, {})

    def _begin(
        self, requests: Mapping[str, Any], count: int, headers: Mapping[str, str], mark: Mapping[str, str]
    ) -> tuple[int, bytes]:
        if len(requests) < max(1, count) or not all(map(_ID.fullmatch, requests)):
            return self._complain("custom_id: not unique, or more than 64 letters and digits")
        fate, self.fates = (self.fates[0], self.fates[1:]) if self.fates else (self.fate, [])
        batch = Batch(f"batch{len(self.batches)}", requests, fate, mark if self.keeps_marks else {})
        self.batches.append(batch)
        processed = {"expired": count // 2, "cancelled": 0, "failed": 0}.get(fate, count)
        for place, (name, request) in enumerate(requests.items()):
            batch.results[name] = self._answer(request, headers) if place < processed else (None, None)
        if fate == "errored":
            error = {"type": "error", "error": {"type": "api_error", "message": "an error of the provider"}}
            batch.results[next(iter(requests))] = (500, error)
        return 200, _encode(self._describe(batch))

    def _answer(self, body: Any, headers: Mapping[str, str]) -> tuple[int, Any]:
        kept = {name: text for name, text in headers.items() if name in _CREDENTIALS}
        kept["content-type"] = "application/json"
        request = urllib.request.Request(self._url, json.dumps(body).encode(), kept)
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)

    def _describe(self, batch: Batch) -> dict[str, Any]:
        ended = batch.fate != "in_progress"
        return (self._describe_messages if self._is_anthropic else self._describe_file)(batch, ended)

    def _describe_messages(self, batch: Batch, ended: bool) -> dict[str, Any]:
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        for status, _ in batch.results.values():
            kind = "expired" if status is None else "succeeded" if status == 200 else "errored"
            counts[kind if ended else "processing"] += 1
        return {
            "id": batch.id, "type": "message_batch", "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts, "created_at": datetime.fromtimestamp(batch.created, UTC).isoformat(),
            "results_url": f"https://elsewhere.example/{batch.id}" if ended else None,
        }  # fmt: skip

    def _describe_file(self, batch: Batch, ended: bool) -> dict[str, Any]:
        status = batch.fate if batch.fate in ("expired", "cancelled", "failed", "in_progress") else "completed"
        good = any(code == 200 for code, _ in batch.results.values())
        bad = any(code != 200 for code, _ in batch.results.values()) and status != "failed"
        return {
            "id": batch.id, "object": "batch", "status": status, "created_at": int(batch.created),
            "endpoint": "/v1/chat/completions", "completion_window": "24h", "metadata": batch.mark or None,
            "request_counts": {"total": len(batch.requests), "completed": 0, "failed": 0},
            "output_file_id": f"output_{batch.id}" if ended and good else None,
            "error_file_id": f"error_{batch.id}" if ended and bad else None,
            "errors": {"object": "list", "data": [{"message": "too large"}]} if status == "failed" else None,
        }  # fmt: skip

    def _list(self, _found: Any, query: str, _headers: Mapping[str, str], _body: bytes) -> tuple[int, bytes]:
        newest = self.batches[::-1]
        after = re.search(r"after(?:_id)?=(\w+)", query)
        start = [batch.id for batch in newest].index(after[1]) + 1 if after else 0
        page = newest[start : start + _PAGE]
        more = start + _PAGE < len(newest)
        return 200, _encode({"object": "list", "data": [*map(self._describe, page)], "has_more": more})

    def _show(self, found: Any, _query: str, _headers: Mapping[str, str], _body: bytes) -> tuple[int, bytes]:
        batch = next((one for one in self.batches if one.id == found[1]), None)
        return (200, _encode(self._describe(batch))) if batch else self._complain("no such batch")

    def _give_results(self, found: Any, *_others: Any) -> tuple[int, bytes]:
        batch = next(one for one in self.batches if one.id == found[1])
        return 200, _spoil(batch, [self._as_message(*one) for one in batch.results.items()])

    def _give_file(self, found: Any, *_others: Any) -> tuple[int, bytes]:
        kind, _, name = found[1].partition("_")
        batch = next(one for one in self.batches if one.id == name)
        wanted = [one for one in batch.results.items() if (one[1][0] == 200) == (kind == "output")]
        return 200, _spoil(batch, [self._as_line(*one) for one in wanted])

    def _as_message(self, name: str, result: tuple[int | None, Any]) -> dict[str, Any]:
        status, reply = result
        kinds = {None: {"type": "expired"}, 200: {"type": "succeeded", "message": reply}}
        return {"custom_id": name, "result": kinds.get(status, {"type": "errored", "error": reply})}

    def _as_line(self, name: str, result: tuple[int | None, Any]) -> dict[str, Any]:
        status, reply = result
        lost = {"code": "batch_expired", "message": "This request could not be executed in time."}
        response = None if status is None else {"status_code": status, "request_id": "r", "body": reply}
        return {"id": f"line_{name}", "custom_id": name, "response": response, "error": None if status else lost}


def _encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def _spoil(batch: Batch, lines: list[dict[str, Any]]) -> bytes:
    texts = [json.dumps(line) for line in lines]
    broken = {"malformed": len(texts), "torn": 1}.get(batch.fate, 0)
    return "".join(f"{text[:-9] if place < broken else text}\n" for place, text in enumerate(texts)).encode()
