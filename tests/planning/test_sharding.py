"""How samples are dealt to shards, which shard this is, and its part of the limits of the run."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.base.errors import InvalidInput
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.model.shards import Shard
from evalspec.runs.planning.build import build_plan
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.sharding import deal, read_shard

SIZES = st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(1, 12), max_size=30), min_size=1)


def name_clusters(sizes):
    """Clusters of these sizes, by dataset, with ids that are unique in their dataset."""
    return {
        dataset: [[f"{number}-{member}" for member in range(size)] for number, size in enumerate(found)]
        for dataset, found in sizes.items()
    }


@given(sizes=SIZES, shards=st.integers(1, 9), seed=st.integers(0, 99))
def test_shards_are_a_balanced_partition_that_no_order_changes(sizes, shards, seed):
    clusters = name_clusters(sizes)
    dealt = deal(clusters, shards)
    assert {name: sorted(found) for name, found in dealt.items()} == {
        name: sorted(one for ids in found for one in ids) for name, found in clusters.items()
    }
    assert all(len({dealt[name][one] for one in ids}) == 1 for name, found in clusters.items() for ids in found)
    owners = [number for found in dealt.values() for number in found.values()]
    loads = [owners.count(number) for number in range(1, shards + 1)]
    assert sum(loads) == len(owners), "no sample is in a shard that does not exist"
    assert max(loads) - min(loads) <= max((size for found in sizes.values() for size in found), default=0)
    chance = random.Random(seed)
    shuffled = {name: [chance.sample(ids, len(ids)) for ids in found] for name, found in clusters.items()}
    for found in shuffled.values():
        chance.shuffle(found)
    assert deal(dict(sorted(shuffled.items(), reverse=True)), shards) == dealt


GITLAB = {"CI_NODE_INDEX": "3", "CI_NODE_TOTAL": "8"}
SLURM = {"SLURM_ARRAY_TASK_ID": "14", "SLURM_ARRAY_TASK_COUNT": "4", "SLURM_ARRAY_TASK_MIN": "10",
         "SLURM_ARRAY_TASK_STEP": "2"}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "environment", "shard"),
    [("3/8", {}, "3/8"), ("1/1", GITLAB, "1/1"), ("auto", GITLAB, "3/8"), ("auto", SLURM, "3/4")],
)
def test_a_shard_is_stated_or_read_from_the_scheduler(text, environment, shard):
    found, said = read_shard(text, environment)
    assert str(found) == shard
    assert (said is None) == (text != "auto")
    assert said is None or all(f"{name} is {value}" in said for name, value in environment.items())


@pytest.mark.parametrize(
    ("text", "environment", "said"),
    [
        ("8", {}, "'8' is no shard"),
        ("0/8", {}, "'0/8' is no shard"),
        ("9/8", {}, "'9/8' is no shard"),
        ("-1/8", {}, "'-1/8' is no shard"),
        ("1/²", {}, "'1/²' is no shard"),
        ("auto", {}, "neither CI_NODE_INDEX nor SLURM_ARRAY_TASK_ID is set"),
        ("auto", {"GITHUB_ACTIONS": "true"}, "${{ matrix.shard }}/${{ strategy.job-total }}"),
        ("auto", GITLAB | SLURM, "CI_NODE_INDEX and SLURM_ARRAY_TASK_ID are both set"),
        ("auto", {"CI_NODE_INDEX": "3"}, "CI_NODE_TOTAL is not set: this numbers no shards"),
        ("auto", GITLAB | {"CI_NODE_INDEX": "9"}, "this numbers no shards"),
        ("auto", SLURM | {"SLURM_ARRAY_TASK_ID": "13"}, "this numbers no shards"),
    ],
)
def test_what_is_no_shard_is_refused_in_one_line(text, environment, said):
    with pytest.raises(InvalidInput, match=r"^--shard: ") as refused:
        read_shard(text, environment)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def plan(project, number, of):
    return build_plan(load_manifest(project.write()), RunOptions(shard=Shard(number, of), max_cost=6, max_tokens=10))


@pytest.fixture
def limited(project):
    project.api = {"url": "http://127.0.0.1:9"}
    project.samples(5, metrics=("answer_relevancy",))
    project.evaluation["limits"] = {"maxJudgeCalls": 7, "maxTime": 60}
    price, pace = {"input": 1, "output": 1}, {"requestsPerMinute": 100, "tokensPerMinute": 4001}
    judge = {"model": "m", "baseUrl": "http://127.0.0.1:9", "apiKey": "none", "price": price, "pace": pace}
    project.evaluation["judge"] = judge
    return project


def test_the_shards_together_may_use_what_the_run_may(limited):
    plans = [plan(limited, number, 4) for number in range(1, 5)]
    assert [one.limits.max_judge_calls for one in plans] == [2, 2, 2, 1]
    assert [one.limits.max_tokens for one in plans] == [3, 3, 2, 2]
    assert {(one.limits.max_cost, one.limits.max_time) for one in plans} == {(1.5, 60)}, "they run side by side"
    paces = [one.judge.pace for one in plans]
    assert [one.requests_per_minute for one in paces] == [25] * 4
    assert [one.tokens_per_minute for one in paces] == [1001, 1000, 1000, 1000]
    assert plans[0].limit_names["max_judge_calls"] == "spec.evaluation.limits.maxJudgeCalls"


def test_a_pace_below_one_request_a_shard_is_refused_with_its_line(limited):
    with pytest.raises(InvalidInput, match=r"agent.yaml:\d+: .*pace.requestsPerMinute: 100 a minute cannot be shared"):
        plan(limited, 1, 101)
