"""What every error has in common."""

from __future__ import annotations

from typing import Any

from ._models import Error, ErrorDetails


class TradeThesisError(Exception):
    """Everything that this package raises."""


class ApiConnectionError(TradeThesisError):
    """The service could not be reached, or the connection broke. It may have acted on the request nevertheless."""


class ApiTimeoutError(ApiConnectionError):
    """The service did not respond in time."""


class UnexpectedResponseError(TradeThesisError):
    """A successful response is not what the API sends: perhaps something between here and the service wrote it."""


class ApiError(TradeThesisError):
    """The service refused a request.

    Decide by `code`. `message` is for people, and `request_id` names the request to those who run the service.
    """

    def __init__(self, status: int, error: Error, retry_after: float | None) -> None:
        # Something other than the service gives neither code nor id.
        code = f"{error.code}: " if error.code else ""
        request_id = f" ({error.request_id})" if error.request_id else ""
        super().__init__(f"{code}{error.message}{request_id}")
        self.status: int = status
        """The status of the response."""
        self.error: Error = error
        """The error as the service sent it."""
        self.retry_after: float | None = retry_after
        """Seconds after which a repetition may help, if the service names them."""

    @property
    def code(self) -> str:
        """The code, such as `TOKEN_NOT_FOUND`. It is empty if something other than the service responded."""
        return self.error.code

    @property
    def type(self) -> str:
        """The class of the error, such as `not_found`."""
        return self.error.type

    @property
    def message(self) -> str:
        """The explanation for people."""
        return self.error.message

    @property
    def request_id(self) -> str:
        """Equals the header `X-Service-Request-Id` of the response."""
        return self.error.request_id

    @property
    def param(self) -> str | None:
        """The field or parameter at fault."""
        return self.error.param

    @property
    def details(self) -> ErrorDetails | None:
        """More data, depending on the code."""
        return self.error.details

    @property
    def doc_url(self) -> str | None:
        """The page that explains the code."""
        return self.error.doc_url

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.error, self.retry_after)
