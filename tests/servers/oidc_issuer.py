"""A small OpenID provider that logs everybody in at once, and can be scripted to sign wrong ID tokens."""

import base64
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT = "evals"


def _encode(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


class OidcIssuer:
    """The provider at `url`. `claims` replace those of the ID token; None removes one. `asked`: paths, in order."""

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {}
        self.header: dict[str, Any] = {}
        self.key = self.new_key("first")
        self.published = [self.key]
        self.asked: list[str] = []
        self.form: dict[str, str] = {}
        self.authorization = ""
        self._nonces: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "OidcIssuer":
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @staticmethod
    def new_key(kid: str) -> RSAKey:
        return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})

    def sign(self, nonce: str) -> str:
        now = int(time.time())
        usual = {"iss": self.url, "sub": "7", "aud": CLIENT, "exp": now + 60, "iat": now, "nonce": nonce}
        usual |= {"email": "ana@example.com", "email_verified": True}
        claims = {key: value for key, value in (usual | self.claims).items() if value is not None}
        header = {"alg": "RS256", "kid": self.key.kid, **self.header}
        if header["alg"] in ("none", "HS256"):
            return self._forge(header, claims)
        return jwt.encode(header, claims, self.key, algorithms=[header["alg"]])

    def _forge(self, header: Any, claims: Any) -> str:
        """A token that anybody can make: without a signature, or signed with the public key."""
        content = b".".join(_encode(json.dumps(part).encode()) for part in (header, claims))
        mac = hmac.digest(self.key.as_pem(private=False), content, "sha256")
        return (content + b"." + (_encode(mac) if header["alg"] == "HS256" else b"")).decode()

    def authorize(self, url: str) -> str:
        """Log somebody in at the address that a browser was sent to. Return the address that it comes back to."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        code = f"code-{len(self._nonces)}"
        self._nonces[code] = query["nonce"]
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], 'iss': self.url})}"

    def answer(self, path: str) -> Any:
        if path == "/.well-known/openid-configuration":
            places = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/jwks"}
            return {"issuer": self.url, **{name: self.url + place for name, place in places.items()}}
        if path == "/jwks":
            return KeySet(list(self.published)).as_dict(private=False)
        if path == "/token" and self.form["code"] in self._nonces:
            return {"token_type": "Bearer", "id_token": self.sign(self._nonces.pop(self.form["code"]))}
        return {"error": "invalid_grant"}

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                body = json.dumps(issuer.answer(self.path)).encode()
                self.send_response(400 if b'"error"' in body else 200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                given = self.rfile.read(int(self.headers["Content-Length"])).decode()
                issuer.form = {name: values[0] for name, values in parse_qs(given).items()}
                issuer.authorization = self.headers.get("Authorization", "")
                self.do_GET()

            def log_message(self, *_: Any) -> None:
                pass

        return Handler
