"""Follows events, and continues where it was when it starts again."""

import os
import pathlib

from trade_thesis import Client, GapMessage

kept, new = pathlib.Path("cursor.txt"), pathlib.Path("cursor.new")

with (
    Client(os.environ["API_URL"], os.environ["API_KEY"]) as client,
    client.stream_events(token="RUN", cursor=kept.read_text() if kept.exists() else None) as stream,
):
    for message in stream:
        if isinstance(message, GapMessage):
            for event in client.missed_events(message.gap):
                print("missed:", event.type, event.id)
        else:
            print(message.event.type, message.event.id, flush=True)  # handle the event here
        # After the event: if the program stops between the two, the event comes once more.
        new.write_text(message.cursor)
        new.replace(kept)
