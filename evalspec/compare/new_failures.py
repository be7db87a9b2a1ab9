"""Samples that passed in the baseline and fail now."""

from evalspec.compare.pairing import describe_unpaired, pair_samples
from evalspec.records import DatasetResult, RegressionOutcome, SampleResult, SampleStatus, VerdictStatus

_NAMES_SHOWN = 5


def find_new_failures(
    before: DatasetResult | None, after: DatasetResult, limit: int, blocked: str | None
) -> RegressionOutcome:
    """The limit on them. A sample passes where all its attempts are within the limits that a reply is held to.

    One without a reply fails, whoever is to blame. Of which it is not known, could be such samples: they leave the
    limit INCOMPLETE where they decide it. `blocked`: why no sample can be held against the baseline.
    """
    if blocked or before is None:
        return RegressionOutcome(after.name, None, VerdictStatus.INCOMPLETE, reason=blocked)
    pairs = pair_samples(before, after)
    failing = [new.id for old, new in pairs.both if old.pass_rate == 1 and _fails(new)]
    unknown = [new.id for old, new in pairs.both if _may_fail_newly(old, new)]
    status, reason = _decide(failing, unknown, limit, len(pairs.both))
    unpaired = describe_unpaired(pairs)
    return RegressionOutcome(after.name, None, status, pairs=len(pairs.both), reason=reason + unpaired)


def _decide(failing: list[str], unknown: list[str], limit: int, pairs: int) -> tuple[VerdictStatus, str]:
    if not pairs:
        return VerdictStatus.INCOMPLETE, "no sample is in both runs"
    said = f"{_count(failing)} newly{_name(failing)}, newFailures is {limit}"
    if len(failing) > limit:
        return VerdictStatus.FAIL, said
    if len(failing) + len(unknown) <= limit or not unknown:
        return VerdictStatus.PASS, said
    if len(unknown) == pairs:
        fix = "it needs a threshold that a single reply can be held to"
        return VerdictStatus.INCOMPLETE, f"whether a sample passes is known of none; {fix}"
    return VerdictStatus.INCOMPLETE, f"{said}; of {len(unknown)} it is not known{_name(unknown)}"


def _fails(sample: SampleResult) -> bool:
    return sample.pass_rate < 1 if sample.pass_rate is not None else sample.status is SampleStatus.FAILED


def _may_fail_newly(old: SampleResult, new: SampleResult) -> bool:
    """Whether it could have passed before and fail now, for all that is known."""
    if old.pass_rate is None:
        return new.pass_rate != 1
    return old.pass_rate == 1 and new.pass_rate is None and not _fails(new)


def _count(failing: list[str]) -> str:
    return f"{len(failing)} sample{'' if len(failing) == 1 else 's'} fail{'s' if len(failing) == 1 else ''}"


def _name(ids: list[str]) -> str:
    more = ", …" if len(ids) > _NAMES_SHOWN else ""
    return f" ({', '.join(ids[:_NAMES_SHOWN])}{more})" if ids else ""
