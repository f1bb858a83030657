// Follows events, and continues where it was when it starts again.
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { Client } from "../src/index.js"; // in your program: "trade-thesis"

const client = new Client(process.env["API_URL"] ?? "", process.env["API_KEY"]);
const cursor = existsSync("cursor.txt") ? readFileSync("cursor.txt", "utf8") : undefined;

for await (const message of client.streamEvents({ token: "RUN" }, { cursor })) {
  if (message.type === "gap") {
    for await (const event of client.missedEvents(message.gap)) console.log("missed:", event.type, event.id);
  } else {
    console.log(message.event.type, message.event.id); // handle the event here
  }
  // After the event: if the program stops between the two, the event comes once more.
  writeFileSync("cursor.new", message.cursor);
  renameSync("cursor.new", "cursor.txt");
}
