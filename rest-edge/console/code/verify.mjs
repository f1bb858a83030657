// npm install standardwebhooks
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.WEBHOOK_SECRET);

export function handle(body, headers) {
  // `body` is the text as it was received. Throws an error if no signature is right, or the delivery is old.
  const event = webhook.verify(body, headers);
  console.log(event.id, event.type);
}
