from evalspec.inputs.datasets.spooling import spool
from evalspec.model import Message, Sample


def test_many_samples_are_the_same_from_disk():
    samples = [Sample(f"s{n}", (Message("user", "q" * n),), metadata={"n": n}, tags=("t",)) for n in range(250)]
    kept = spool(iter(samples))
    assert (len(kept), [*kept]) == (250, samples)
    assert [kept[n] for n in (0, 99, 100, 101, 7, -1)] == [samples[n] for n in (0, 99, 100, 101, 7, -1)]
    assert kept[98:202:50] == samples[98:202:50]
    first, second = iter(kept), iter(kept)
    assert [next(one) for _ in range(120) for one in (first, second)] == [s for s in samples[:120] for _ in range(2)]


def test_a_few_samples_stay_in_memory():
    assert spool(Sample(str(n), "q") for n in range(3)) == tuple(Sample(str(n), "q") for n in range(3))
