"""Log in at an identity provider: the authorization code flow of OpenID Connect with PKCE, and checks of the ID token.

The server sends requests to the issuer and the addresses of its metadata, and to nobody else.
"""

import base64
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from http import HTTPStatus
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from msgspec import Struct

from evalspec.base.foreign_text import cut, inert
from evalspec.inputs.manifest.references import References
from evalspec.service.problems import ApiProblem
from evalspec.service.rates import Rates
from evalspec.service.settings import OidcSettings
from evalspec.service.tokens import ProjectRole, fold_user
from evalspec.targets.http.routes import is_loopback

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Signatures with the issuer's private key. `none`, and HMAC with a key that others have, are refused."""
FETCHES_A_MINUTE = 5
"""How often unknown keys make the server read the issuer's keys again."""
MOST_LOGINS = 8
"""How many requests wait for the issuer at once. Anybody can begin a login, and the other requests need threads too."""

_LEEWAY_SECONDS = 30
_TIMEOUT_SECONDS = 10.0
_LONGEST_USER = 200
_KEY_TYPES = frozenset({"RSA", "EC", "OKP"})
_BASIC = "client_secret_basic"


class Identity(Struct, frozen=True):
    """Who logged in. `roles`: by namespace, as the issuer's claim grants them; None: it grants none here."""

    user: str
    roles: Mapping[str, ProjectRole] | None


class Issuer:
    """The identity provider of a server. Its metadata and keys are read when they are first needed."""

    def __init__(self, settings: OidcSettings) -> None:
        """Resolve the client secret.

        Raises:
            UnresolvedReference: Its variable is not set.
        """
        self.settings = settings
        self._secret = References(Path()).resolve(settings.client_secret) if settings.client_secret else None
        self._metadata: Mapping[str, Any] = {}
        self._keys: Any = None
        self._fetches = Rates(FETCHES_A_MINUTE)
        self._asking = BoundedSemaphore(MOST_LOGINS)

    def find_failure(self) -> str | None:
        """Return why nobody can log in, or None."""
        try:
            self._read_metadata()
        except ApiProblem as problem:
            return problem.detail
        return None

    def begin(self, secret: str, redirect: str) -> str:
        """Return where a browser logs in. `secret`: of the browser; `redirect`: where it comes back to.

        Raises:
            ApiProblem: 503: The issuer does not answer.
        """
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect,
            "scope": self.settings.scope,
            "state": _derive(secret, "state"),
            "nonce": _derive(secret, "nonce"),
            "code_challenge": _encode(sha256(_derive(secret, "verifier").encode()).digest()),
            "code_challenge_method": "S256",
        }
        place = _check_address(self._read_metadata().get("authorization_endpoint"))
        return f"{place}{'&' if urlsplit(place).query else '?'}{urlencode(query)}"

    def finish(self, secret: str, answer: Mapping[str, str], redirect: str) -> Identity:
        """Return who logged in. `answer`: the query with which the issuer sent the browser back.

        Raises:
            ApiProblem: 401: The answer or its ID token is refused. 503: The issuer does not answer.
        """
        if not secret or not compare_digest(answer.get("state", "").encode(), _derive(secret, "state").encode()):
            raise _refuse("this answer belongs to another browser, or is expired or used")
        if answer.get("iss", self.settings.issuer) != self.settings.issuer:
            raise _refuse("another issuer sent this answer")
        if "code" not in answer:
            raise _refuse(f"the issuer says: {_quote(answer.get('error_description') or answer.get('error'))}")
        form = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": redirect,
            "code_verifier": _derive(secret, "verifier"),
        }
        token = self._redeem(form).get("id_token")
        return self._identify(self._read_claims(str(token), _derive(secret, "nonce")))

    def _redeem(self, form: dict[str, str]) -> Mapping[str, Any]:
        metadata, own = self._read_metadata(), {"client_id": self.settings.client_id}
        auth = None
        if self._secret is None:
            form |= own
        elif _BASIC in metadata.get("token_endpoint_auth_methods_supported", [_BASIC]):
            auth = quote_plus(self.settings.client_id), quote_plus(self._secret)
        else:
            form |= own | {"client_secret": self._secret}
        found = self._fetch(metadata.get("token_endpoint"), form, auth)
        if "error" in found:
            raise _refuse(f"the issuer says: {_quote(found['error'])}")
        return found

    def _read_metadata(self) -> Mapping[str, Any]:
        if not self._metadata:
            found = self._fetch(f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != self.settings.issuer:
                raise _explain(f"its metadata names the issuer {_quote(found.get('issuer'))}")
            self._metadata = found
        return self._metadata

    def _read_claims(self, token: str, nonce: str) -> Mapping[str, Any]:
        """Return the claims of an ID token. An unknown key makes it read the issuer's keys again, a few times a minute.

        Raises:
            ApiProblem: 401: It is not from the issuer, for this server and browser, and valid now.
        """
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        wanted = {"iss": self.settings.issuer, "aud": self.settings.client_id, "nonce": nonce}
        essential: Any = {name: {"essential": True, "value": value} for name, value in wanted.items()}
        essential |= {name: {"essential": True} for name in ("sub", "exp", "iat")}
        try:
            try:
                found = jwt.decode(token, self._find_keys(), algorithms=list(ALGORITHMS))
            except InvalidKeyIdError:
                found = jwt.decode(token, self._find_keys(is_outdated=True), algorithms=list(ALGORITHMS))
            jwt.JWTClaimsRegistry(leeway=_LEEWAY_SECONDS, **essential).validate(found.claims)
        except (JoseError, ValueError, TypeError) as error:
            raise _refuse(f"the ID token is not valid: {_quote(error)}") from None
        audience, party = found.claims["aud"], found.claims.get("azp")
        if party != self.settings.client_id and (party is not None or audience not in (wanted["aud"], [wanted["aud"]])):
            raise _refuse("the ID token is not valid: it is for another party (aud, azp)")
        return found.claims

    def _find_keys(self, *, is_outdated: bool = False) -> Any:
        from joserfc.jwk import KeySet

        if self._keys is None or (is_outdated and self._fetches.take("") is None):
            keys = self._fetch(self._read_metadata().get("jwks_uri")).get("keys")
            found = [key for key in keys if isinstance(key, dict)] if isinstance(keys, list) else []
            signing = [key for key in found if key.get("kty") in _KEY_TYPES and key.get("use", "sig") == "sig"]
            self._keys = KeySet.import_key_set({"keys": signing})
        return self._keys

    def _identify(self, claims: Mapping[str, Any]) -> Identity:
        settings = self.settings
        user = claims.get(settings.user_claim)
        if not isinstance(user, str) or not user.strip() or not user.isprintable() or len(user) > _LONGEST_USER:
            raise _refuse(f"the ID token has no claim {settings.user_claim} with a name")
        if settings.user_claim == "email" and claims.get("email_verified") not in (True, "true"):
            fix = "if people cannot change it there, serve --oidc-user-claim names another claim, such as sub"
            raise _refuse(f"the issuer does not say that it has verified the address; {fix}")
        user = fold_user(user)
        if settings.role_claim is None:
            return Identity(user, None)
        given = claims.get(settings.role_claim)
        values = {str(one) for one in (given if isinstance(given, list) else [given]) if one is not None}
        granted: dict[str, ProjectRole] = {}
        for value, namespace, role in settings.grants:
            if value in values:
                granted[namespace] = max(
                    ProjectRole(role), granted.get(namespace, ProjectRole.VIEWER), key=list(ProjectRole).index
                )
        return Identity(user, granted)

    def _fetch(self, url: Any, form: Mapping[str, str] | None = None, auth: Any = None) -> Mapping[str, Any]:
        """Return a document of the issuer. A refused `form` has one, too."""
        import httpx

        method = "GET" if form is None else "POST"
        if not self._asking.acquire(blocking=False):
            raise _explain("it has not answered earlier logins yet")
        try:
            answer = httpx.request(method, _check_address(url), data=form, auth=auth, timeout=_TIMEOUT_SECONDS)
            found = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise _explain(f"{type(error).__name__} at {_quote(url)}") from None
        finally:
            self._asking.release()
        if not isinstance(found, dict) or (answer.is_error and "error" not in found):
            raise _explain(f"status {answer.status_code} at {_quote(url)}")
        return found


def _check_address(url: Any) -> str:
    """Return an address that others on the network can neither read nor change."""
    parts = urlsplit(url) if isinstance(url, str) else urlsplit("")
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return str(url)
    raise _explain(f"{_quote(url)} is not an https address")


def _derive(secret: str, what: str) -> str:
    """Return what only the browser with this secret can have sent or received."""
    return _encode(sha256(f"{what}:{secret}".encode()).digest())


def _encode(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _quote(text: object) -> str:
    return cut(inert(str(text)), _LONGEST_USER)


def _refuse(detail: str) -> ApiProblem:
    return ApiProblem(HTTPStatus.UNAUTHORIZED, f"{detail}; log in again")


def _explain(cause: str) -> ApiProblem:
    detail = f"the identity provider does not answer as it should: {cause}; login links and tokens work"
    return ApiProblem(HTTPStatus.SERVICE_UNAVAILABLE, detail)
