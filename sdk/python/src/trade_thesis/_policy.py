"""How a client writes a request and reads an error, and when it tries again. Nothing here waits or sends."""

from __future__ import annotations

import dataclasses
import random
import re
from typing import Any, TypeVar

import httpx

from ._call import Call
from ._error_classes import ERROR_CLASSES
from ._errors import ApiConnectionError, ApiError, ApiTimeoutError, TradeThesisError, UnexpectedResponseError
from ._models import Error
from ._values import body_of, query_of
from ._version import __version__

T = TypeVar("T")

LONGEST_RETRY_AFTER = 120.0
"""Seconds: if the service asks for a longer pause, the caller decides."""
LONGEST_SLEEP = 2.0**31
"""Seconds: `time.sleep` fails with much larger numbers."""
LONGEST_PAUSE = 30.0
FIRST_PAUSE = 0.5
REPEATED_STATUSES = (429, 500, 502, 503, 504)
SILENCE = 45.0
"""Seconds without a byte after which a stream is dead: the service sends something every 15 seconds."""
BROKEN = (
    httpx.NetworkError,
    httpx.ProxyError,
    httpx.RemoteProtocolError,
    httpx.TimeoutException,
    httpx.DecodingError,
)
"""The failures of a connection that another try may mend."""

USER_AGENT = f"trade-thesis-python/{__version__}"


class Requests:
    """The requests that a client with an address and a key sends."""

    def __init__(self, base_url: str, api_key: str | None, timeout: float, user_agent: str | None) -> None:
        address = httpx.URL(base_url)
        if address.scheme not in ("http", "https") or not address.host or re.search("[?#]", base_url):
            raise ValueError(f"base_url is no address of a service: {base_url!r}")
        self.base_url = base_url.rstrip("/")
        agent = USER_AGENT if user_agent is None else f"{USER_AGENT} {user_agent}"
        self.headers = {"User-Agent": agent, "Accept": "application/json, */*;q=0.5"}
        if api_key is not None:
            # A key from a file may have an end of line.
            key = api_key.strip()
            if not re.fullmatch("[!-~]+", key):
                raise ValueError("the API key is empty or has a character that no key has")
            self.headers["Authorization"] = f"Bearer {key}"
        self.timeout = timeout

    def arguments(self, call: Call[Any], timeout: float | None) -> dict[str, Any]:
        """The arguments with which httpx builds a request."""
        # An address without a part, or with dots in its place, is another one.
        if re.search(r"/\.{0,2}(/|$)", call.path):
            raise ValueError(f"a part of the path {call.path} names nothing")
        headers = dict(self.headers)
        if call.idempotency_key is not None:
            headers["Idempotency-Key"] = call.idempotency_key
        return {
            "method": call.method,
            "url": self.base_url + call.path,
            "params": list(query_of(call.query)),
            "json": None if call.body is None else body_of(call.body),
            "headers": headers,
            "timeout": self.timeout if timeout is None else timeout,
        }

    def stream_arguments(self, call: Call[Any], cursor: str | None) -> dict[str, Any]:
        """The same for a stream that continues after a cursor."""
        arguments = self.arguments(call, None)
        # A compressed stream could hold events back.
        arguments["headers"] |= {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if cursor is not None:
            arguments["headers"]["Last-Event-ID"] = cursor
        return arguments


def allow_silence(response: httpx.Response) -> None:
    """Gives the reads of an open stream their own timeout. Until then that of a try holds.

    The transport looks the timeout up when it begins to read the body.
    """
    response.request.extensions["timeout"]["read"] = SILENCE


def failure(error: Exception) -> ApiConnectionError:
    """The error for a failure of the connection."""
    kind = ApiTimeoutError if isinstance(error, httpx.TimeoutException) else ApiConnectionError
    return kind(str(error) or type(error).__name__)


def result(call: Call[T], response: httpx.Response) -> T:
    """What a successful response has."""
    try:
        return call.read(response)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnexpectedResponseError(f"{call.method} {call.path}: {type(error).__name__}: {error}") from error


def refusal(response: httpx.Response) -> ApiError:
    """The error of a response whose body has been read."""
    try:
        error = read_error(response.json()["error"])
    except (KeyError, TypeError, ValueError):
        # Something between here and the service responded.
        request_id = response.headers.get("X-Service-Request-Id", "")
        message = f"status {response.status_code} without an error of the API: {response.text[:200]}"
        error = Error(type="", code="", message=message, request_id=request_id)
    try:
        retry_after = min(max(0.0, float(response.headers["Retry-After"])), LONGEST_SLEEP)
    except (KeyError, ValueError):
        retry_after = None
    return ERROR_CLASSES.get(error.type, ApiError)(response.status_code, error, retry_after)


def read_error(raw: dict[str, Any]) -> Error:
    """Reads an error. A later version may send details of another form, which must not hide it."""
    try:
        return Error.read(raw)
    except (KeyError, TypeError, ValueError, AttributeError):
        return dataclasses.replace(Error.read({**raw, "details": None}), raw=raw)


def helps_again(error: TradeThesisError) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, ApiError):
        is_passing = error.status in REPEATED_STATUSES or error.code == "IDEMPOTENCY_IN_PROGRESS"
        return is_passing and error.code != "QUOTA_EXCEEDED"
    return isinstance(error, ApiConnectionError)


def pause_before(retry: int, error: TradeThesisError) -> float | None:
    """Seconds to wait before a retry, counted from 1; none if it would not help."""
    retry_after = error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0
    if not helps_again(error) or retry_after > LONGEST_RETRY_AFTER:
        return None
    return retry_after + growing_pause(retry)


def growing_pause(retry: int) -> float:
    """A pause that grows, with a random part so that many clients do not return at once."""
    # It is no secret.
    return random.uniform(0.5, 1) * min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(retry - 1, 16))  # noqa: S311
