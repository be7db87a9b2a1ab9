"""The turns of conversations in the run log, so that a killed run can resume there."""

from collections.abc import Callable

from evalspec.base.plural import counted
from evalspec.model import AgentTurn
from evalspec.model.log import TurnRecord
from evalspec.runs.runner.known_attempts import KnownAttempts
from evalspec.runs.store.log_index import AttemptKey


class TurnLogs:
    """Keeps the turns of all attempts of a run. `known`: what an earlier session of the run has left."""

    def __init__(self, keep: Callable[[TurnRecord], None], known: KnownAttempts | None) -> None:
        self.keep = keep
        index = known.index if known is not None and known.is_own else None
        self.left = {} if index is None else index.conversations
        self.superseded = [] if index is None else list(index.superseded)

    def open(self, key: AttemptKey) -> "StoredTurns":
        """Return what keeps the turns of one attempt."""
        return StoredTurns(self, key)

    @property
    def notes(self) -> list[str]:
        """What the report says of turns that count in no score."""
        if not self.superseded:
            return []
        usages = [turn.reply.usage for turn in self.superseded]
        tokens = sum(usage.total for usage in usages if usage is not None)
        used = f"; they used {tokens:,} tokens" if None not in usages else ""
        count = counted(len(self.superseded), "turn")
        return [f"{count} of conversations that began again are in the log and in no score{used}"]


class StoredTurns:
    """Keeps the turns of one attempt. Those that cannot be resumed are superseded at once."""

    def __init__(self, logs: TurnLogs, key: AttemptKey) -> None:
        self._logs, self._key = logs, key
        self._session, self._turns = "", list[AgentTurn]()
        left = logs.left.pop(key, None)
        if left is not None:
            self._session, self._turns = left.session, list(left.turns)
        if left is not None and left.is_redacted:
            self.supersede()

    def recall(self) -> tuple[str, tuple[AgentTurn, ...]]:
        """See conversing.TurnLog."""
        return self._session, tuple(self._turns)

    def keep(self, session: str, turn: AgentTurn) -> None:
        """See conversing.TurnLog."""
        if session != self._session:
            self.supersede()
        self._session = session
        record = TurnRecord(*self._key, session, len(self._turns), turn.user, turn.reply)
        self._turns.append(turn)
        self._logs.keep(record)

    def supersede(self) -> None:
        """See conversing.TurnLog."""
        if self._turns:
            self._logs.superseded += self._turns
            self._logs.keep(TurnRecord(*self._key, self._session, len(self._turns), "", None))
        self._session, self._turns = "", []
