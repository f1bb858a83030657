// An endpoint of a webhook. It listens on PORT, and takes only what the service has signed.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { verifyWebhook, WebhookSignatureError } from "../src/index.js"; // in your program: "trade-thesis"

const secret = process.env["WEBHOOK_SECRET"] ?? "";

async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  try {
    const event = await verifyWebhook(Buffer.concat(pieces), request.headers, secret);
    response.writeHead(204).end();
    // Queue it, and skip ids that you know: a delivery may come twice.
    if (event.type === "thesis.created" && event.data) console.log(event.id, event.data);
  } catch (error) {
    if (!(error instanceof WebhookSignatureError)) throw error;
    console.error("refused:", error.message);
    response.writeHead(400).end();
  }
}

createServer((request, response) => void take(request, response)).listen(Number(process.env["PORT"] ?? "8000"));
