"""An endpoint of a webhook. It listens on PORT, and takes only what the service has signed."""

import http.server
import os

from trade_thesis import webhooks
from trade_thesis.types import ThesisCreatedEvent

SECRET = os.environ["WEBHOOK_SECRET"]
MAX_BYTES = 1 << 20


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Handles deliveries."""

    def do_POST(self) -> None:
        """Takes one delivery."""
        length = int(self.headers.get("Content-Length", 0))
        if not 0 <= length <= MAX_BYTES:
            self.send_error(413)
            return
        body = self.rfile.read(length)
        try:
            event = webhooks.verify(body, self.headers, SECRET)
        except webhooks.WebhookSignatureError as error:
            self.log_error("refused: %s", error)
            self.send_response(400)
        else:
            # Queue it, and skip ids that you know: a delivery may come twice.
            if isinstance(event, ThesisCreatedEvent):
                print(event.id, event.data.text, flush=True)
            self.send_response(204)
        self.end_headers()


http.server.ThreadingHTTPServer(("", int(os.environ.get("PORT", "8000"))), Endpoint).serve_forever()
