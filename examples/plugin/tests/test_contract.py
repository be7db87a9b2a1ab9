"""The contract of each part, checked by evalspec."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from evalspec_faq import CHAT, FAQ, GRADER, HELPDESK, TAP, SharedWords, cites_source

from evalspec.api.plugins import (
    AgentReply,
    Exchange,
    ExportConfig,
    Sample,
    check_agent,
    check_dataset_format,
    check_exporter,
    check_judge,
    check_metric,
    check_reporter,
    check_retriever,
)


def test_metric():
    exchange = Exchange(Sample("s", "Who pays?"), AgentReply("You do [1]."))
    assert check_metric(cites_source, exchange).value == 1
    assert check_metric(cites_source, exchange, at_least=2).value == 0


def test_dataset_format(tmp_path):
    path = tmp_path / "questions.faq"
    path.write_text("Q: Who pays?\nA: You do.\n\nQ: When?\nA: Now.\n")
    assert [sample.references for sample in check_dataset_format(FAQ, path)] == [("You do.",), ("Now.",)]


def test_reporter():
    assert "not ok 1 - " in check_reporter(TAP)


class Chat(BaseHTTPRequestHandler):
    """A chat that takes every message."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_exporter():
    with HTTPServer(("127.0.0.1", 0), Chat) as chat:
        Thread(target=chat.serve_forever, daemon=True).start()
        to = ExportConfig(url=f"http://127.0.0.1:{chat.server_port}")
        assert check_exporter(CHAT, to) == "the verdict to the chat"
        chat.shutdown()


def test_agent():
    assert check_agent(HELPDESK, {"answer": "You do."}).response == "You do."


def test_judge():
    found = check_judge(GRADER, {"graded": '{"value": 1}', "grader": "desk-2"})
    assert found.choices[0].text == '{"value": 1}'


def test_retriever():
    check_retriever(lambda options, _vectors: SharedWords(options.model_extra["shortest"]), shortest=3)
