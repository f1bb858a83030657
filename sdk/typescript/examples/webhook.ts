// An endpoint of a webhook. It listens on PORT, and takes only what the service has signed.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { verifyWebhook, WebhookSignatureError } from "../src/index.js"; // in your program: "trade-thesis"

const secret = process.env["WEBHOOK_SECRET"];
if (!secret) throw new Error("WEBHOOK_SECRET is missing");
const MAX_BYTES = 1 << 20;

const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  try {
    const pieces: Buffer[] = [];
    let bytes = 0;
    for await (const piece of request as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > MAX_BYTES) {
        response.writeHead(413).end();
        return;
      }
      pieces.push(piece);
    }
    const event = await verifyWebhook(Buffer.concat(pieces), request.headers, secret);
    // Queue it, and skip ids that you know: a delivery may come twice.
    if (event.type === "thesis.created" && event.data) console.log(event.id, event.data);
    response.writeHead(204).end();
  } catch (error) {
    // A client that goes away in the middle of a body is an error, too.
    console.error("refused:", error);
    response.writeHead(error instanceof WebhookSignatureError ? 400 : 500).end();
  }
};

createServer((request, response) => void take(request, response)).listen(Number(process.env["PORT"] ?? "8000"));
