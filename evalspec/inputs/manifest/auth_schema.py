"""How requests to a service are authenticated (`auth`), and how the result of a job is awaited (`poll`)."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StrictStr, model_validator

from evalspec.inputs.manifest.fields import ManifestModel, Name, Seconds, check_query

_File = Annotated[Name, AfterValidator(lambda text: text.removeprefix("$file:"))]
"""A path, with or without `$file:`. It stays a path, because TLS reads certificates from files."""


_Query = Annotated[Name, AfterValidator(check_query)]


class OAuth2Config(ManifestModel):
    """Where to get an access token by the client credentials of OAuth 2.0."""

    token_url: Name = Field(description="URL of the token endpoint.", examples=["https://login.example/oauth2/token"])
    client_id: Name = Field(description="Id of the client.", examples=["$env:CLIENT_ID"])
    client_secret: StrictStr | None = Field(
        None, description="Secret of the client, as a reference such as `$env:NAME`; required without `certificate`."
    )
    send_in: Literal["header", "body"] = Field(
        "header", description="How id and secret are sent: as HTTP Basic authentication, or in the form."
    )
    scope: Name | None = Field(None, description="Scopes to request, separated by spaces.")
    audience: Name | None = Field(None, description="Audience to request, for example for Auth0.")


class CertificateConfig(ManifestModel):
    """A client certificate, which is offered in TLS."""

    cert: _File = Field(description="PEM file with the certificate, relative to the manifest.", examples=["client.pem"])
    key: _File | None = Field(None, description="PEM file with its private key. Default: it is in `cert`.")
    password: StrictStr | None = Field(None, description="Password of the key, as a reference such as `$env:NAME`.")


class AuthConfig(ManifestModel):
    """The credentials of a service: a token from `oauth2` or `command`, a `certificate`, or both."""

    oauth2: OAuth2Config | None = None
    command: list[StrictStr] | None = Field(
        None,
        min_length=1,
        description="Program and arguments that print a token, run without a shell in the folder of the manifest. It "
        'prints one line with the token, or `{"token": …, "expiresAt": …}`.',
    )
    expires_in_seconds: Seconds | None = Field(
        None, description="Lifetime of tokens of `command` that do not say when they expire. Default: until a 401."
    )
    header: Name | None = Field(
        None, description="Header for the token alone. Default: `Authorization: Bearer`, or that of the judge's wire."
    )
    certificate: CertificateConfig | None = None

    @property
    def has_token(self) -> bool:
        """Whether requests carry a token."""
        return self.oauth2 is not None or self.command is not None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.oauth2 is not None and self.command is not None:
            raise ValueError("oauth2 and command are two sources of a token; remove one of them")
        if not self.has_token and self.certificate is None:
            raise ValueError("it names no credentials; add oauth2, command or certificate")
        if self.command is None and self.expires_in_seconds is not None:
            raise ValueError("expiresInSeconds is of a token that a command prints; add command, or remove it")
        if self.header is not None and not self.has_token:
            raise ValueError("header is that of a token; add oauth2 or command, or remove it")
        if self.oauth2 is not None and self.oauth2.client_secret is None and self.certificate is None:
            raise ValueError("oauth2 has no clientSecret; add it, or a certificate that replaces it")
        return self


class Authenticated(ManifestModel):
    """A service whose requests may need credentials."""

    auth: AuthConfig | None = Field(
        None, description="Credentials of the requests: a token that is renewed, or a client certificate."
    )

    @model_validator(mode="after")
    def _one_credential(self) -> Self:
        if self.auth is not None and self.auth.has_token:
            header = (self.auth.header or "authorization").lower()
            others = [f"headers.{name}" for name in getattr(self, "headers", ()) if name.lower() == header]
            others += ["apiKey"] if getattr(self, "api_key", None) is not None else []
            if others:
                raise ValueError(f"auth and {others[0]} are two credentials of one request; remove one of them")
        return self


class PollConfig(ManifestModel):
    """How to await the result of a request that only starts a job."""

    path: StrictStr | None = Field(
        None, description="Path under the url for GET, with {{job}}. Default: the URL that the first reply names."
    )
    job: _Query | None = Field(
        None,
        description="JSONPath query for the id of the job in the first reply; without `path`, for the URL. Default: "
        "the Location header; a first reply of 200 without it is the result.",
    )
    status: _Query | None = Field(
        None, description="JSONPath query for the state of the job. Default: a status other than 202 ends it."
    )
    done: list[Any] = Field([], description="States of a job that has a result; required with `status`.")
    failed: list[Any] = Field([], description="States of a job that has failed, which fails the sample.")
    interval_seconds: Seconds = Field(1.0, description="Seconds between two requests. A longer Retry-After wins.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.path is not None and self.job is None:
            raise ValueError("path needs the id of the job; add job, as in job: $.id")
        if self.path is not None and not 0 < self.path.count("{{") == self.path.count("{{job}}"):
            raise ValueError("{{job}} is the only placeholder of path, and has to be there; write path: /jobs/{{job}}")
        if (self.status is None) != (not self.done) or (self.failed and self.status is None):
            raise ValueError("status and done belong together; write both, as in {status: $.status, done: [completed]}")
        return self
