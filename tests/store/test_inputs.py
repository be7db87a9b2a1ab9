from hypothesis import given

from dataset_contents import SAMPLES_OF_ANY_KIND
from evalspec.model import Sample
from evalspec.model.log import InputRecord
from evalspec.runs.store.inputs import read_inputs
from evalspec.runs.store.log_records import encode_record


@given(samples=SAMPLES_OF_ANY_KIND)
def test_samples_come_back_as_they_were(samples, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "inputs.jsonl"
    path.write_bytes(b"".join(encode_record(InputRecord("qa", sample), n) for n, sample in enumerate(samples, 1)))
    assert list(read_inputs(path)) == [("qa", sample) for sample in samples]


def test_whether_a_question_can_be_answered_is_no_text(tmp_path):
    record = InputRecord("qa", Sample("s", "secret", answerable=False)).without_texts(())
    path = tmp_path / "inputs.jsonl"
    path.write_bytes(encode_record(record, 1))
    [(_, sample)] = read_inputs(path)
    assert (sample.question, sample.answerable) == ("", False)
