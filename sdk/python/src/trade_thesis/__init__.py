"""Client of the Trade Thesis Data Service.

`Client` and `AsyncClient` have a method for each operation. `types` has the types of requests and responses, `errors`
what they raise, `webhooks` checks deliveries, and `receipts` proofs.
"""

from . import errors, receipts, types, webhooks
from ._async_stream import AsyncEventStream
from ._call import Options
from ._client import AsyncClient, Client
from ._messages import EventMessage, GapMessage, StreamMessage
from ._stream import EventStream
from ._values import NOT_GIVEN, NotGiven
from ._version import __version__
from .errors import ApiConnectionError, ApiError, ApiTimeoutError, TradeThesisError

__all__ = [
    "NOT_GIVEN",
    "ApiConnectionError",
    "ApiError",
    "ApiTimeoutError",
    "AsyncClient",
    "AsyncEventStream",
    "Client",
    "EventMessage",
    "EventStream",
    "GapMessage",
    "NotGiven",
    "Options",
    "StreamMessage",
    "TradeThesisError",
    "__version__",
    "errors",
    "receipts",
    "types",
    "webhooks",
]
