import json
import time

import pytest

from evalspec.inputs.manifest.credentials import find_secrets, mask_keys, may_have_keys


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("SHOP_API_KEY", "p8Zr4-Kq2LmX9", True),
        ("db_password", "Tr0ub4dor&3", True),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", True),
        ("AWS_SECRET_ACCESS_KEY", "/JalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", True),
        ("AWS_SECRET_ACCESS_KEY", "/tmpXUtnFEMIkK7MDENG/bPxRfiCYEXAMPLEKEY", True),
        ("DB_PASSWORD", "x9-Kq://7zLmPw2Tt", True),
        ("GCP_SA_KEY", '{"private_key": "MIIEvQ", "token_uri": "https://oauth2.example.com/token"}', True),
        ("BUS_SECRET", "Endpoint=sb://ns.example.net/;SharedAccessKey=Zk3f9Qw8Lm2Xx7Pp1Rr5=", True),
        ("CLIENT_SECRET", "550e8400-e29b-41d4-a716-446655440000", True),
        ("CACHE_KEY", "production-cache", False),
        ("PARTITION_KEY", "Customer Name", False),
        ("ACCOUNT_KEY", "1234567890123", False),
        ("TLS_KEY", "/etc/ssl/key-1.pem", False),
        ("TLS_KEY", "/home/ann/My Keys/bot.pem", False),
        ("TLS_KEY", "../keys/k1.pem", False),
        ("TLS_KEY", "C:\\keys\\a1.pem", False),
        ("TOKEN", "https://login.example.com/token?v=1", False),
        ("X_SECRET", "short1!", False),
        ("SSH_KEY_PATH", "p8Zr4-Kq2LmX9", False),
        ("KEYBOARD", "p8Zr4-Kq2LmX9", False),
    ],
)
def test_a_secret_is_known_by_its_name_and_by_its_looks(name, value, is_secret):
    assert [*find_secrets(name, value)] == ([value] if is_secret else [])


def test_of_a_url_the_password_is_secret():
    written, meant = "p8Zr4%2FKq!2LmX9", "p8Zr4/Kq!2LmX9"
    assert find_secrets("DB_SECRET", f"postgres://ann:{written}@db:5432/shop") == [written, meant]
    assert find_secrets("DB_SECRET", "postgres://ann@db:5432/shop") == []


RUN = "a1B2" * 9


@pytest.mark.parametrize(
    "key",
    [
        *(f"{start}{RUN}" for start in ("sk-", "github_pat_", "glpat-", "hf_", "AIza", "xoxb-", "xoxp-")),
        *(f"gh{kind}_{RUN}" for kind in "opsur"),
        *(f"{start}{RUN.upper()[:16]}" for start in ("AKIA", "ASIA")),
        f"eyJ{RUN}.eyJ{RUN}.{RUN}",
        f"-----BEGIN EC PRIVATE KEY-----\n{RUN}\n-----END EC PRIVATE KEY-----",
    ],
)
def test_a_key_is_masked_wherever_it_is(key):
    for text in (key, f"it is:\n{key}", f"'{key}' \u00e9"):
        assert key not in mask_keys(text)
        assert may_have_keys(json.dumps(text).encode())


def test_a_line_of_english_has_no_keys():
    assert not may_have_keys(b'{"response":"the right height, though the sky is a monkey\'s"}')


@pytest.mark.parametrize(
    "text",
    [
        "risk-based-approach-to-1-million",
        "sk-learn",
        "disk-1234567890123456789",
        "eyJ and eyJ",
        "AKIA is a prefix of 20",
    ],
)
def test_ordinary_text_is_not_masked(text):
    assert mask_keys(text) == text


def test_masking_takes_no_more_time_than_the_text_is_long():
    began = time.process_time()
    for text in ("sk-" * 300_000, "eyJaaaaaaaa." * 80_000, "-----BEGIN " * 80_000, "xoxb-" * 200_000, "gh" * 400_000):
        mask_keys(text)
    assert time.process_time() - began < 5
