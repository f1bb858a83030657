"""Gets the receipt of a thesis, and checks it offline."""

import os

from trade_thesis import Client, receipts

with Client(os.environ["API_URL"], os.environ["API_KEY"]) as client:
    # Store the keys once: who only knows those in a receipt can be shown any log.
    keys = [key.key for key in client.list_log_keys().data]
    thesis = client.list_theses(limit=100).data[-1]
    receipt = client.get_receipt(thesis.id)

verified = receipts.verify(receipt, trusted=keys)
evidence = verified.document["evidence"]
print("recorded at", evidence["recorded_at"], "in", verified.dataset, "of", verified.size, "entries:", evidence["text"])
