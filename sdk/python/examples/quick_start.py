"""Lists theses, proves one, and searches."""

import datetime
import os

from trade_thesis import Client, errors

with Client(os.environ["API_URL"], os.environ["API_KEY"]) as client:
    key = client.get_me()
    print("key:", key.name, key.environment, key.scopes)

    page = client.list_theses(token="RUN", limit=2)
    for thesis in page.data:
        print(thesis.created_at, thesis.profile.handle, thesis.text)

    # All rows of all pages, read as they are needed.
    authors = {thesis.profile.handle for thesis in client.iterate_theses(token="RUN", since="24h")}
    print("authors of a day:", len(authors))

    claim = page.data[0]
    verdict = client.verify_thesis(
        handle=claim.profile.handle,
        token=claim.token.id,
        created_after=claim.created_at - datetime.timedelta(minutes=1),
    )
    print("verified:", verdict.verified, verdict.reason)

    print("found:", len(client.search(q="sandbox", types=["profiles", "tokens"]).profiles), "profiles")

    try:
        client.get_token("NOSUCHTOKEN")
    except errors.NotFoundError as error:
        print("as expected:", error.code, error.request_id)
