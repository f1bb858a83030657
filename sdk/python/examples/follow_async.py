"""Follows events with asyncio, until ten have come."""

import asyncio
import os

from trade_thesis import AsyncClient, EventMessage


async def main() -> None:
    """Prints ten events."""
    async with (
        AsyncClient(os.environ["API_URL"], os.environ["API_KEY"]) as client,
        client.stream_events(types="thesis.created") as stream,
    ):
        left = 10
        async for message in stream:
            if isinstance(message, EventMessage):
                print(message.event.type, message.event.id, flush=True)
                left -= 1
            if left == 0:
                return


asyncio.run(main())
