"""The clients."""

from __future__ import annotations

from ._async_operations import AsyncOperations
from ._operations import Operations


class Client(Operations):
    """Calls the API. It may be shared by threads."""


class AsyncClient(AsyncOperations):
    """Calls the API with asyncio."""
