// Lists theses, proves one, and searches.
import { Client, NotFoundError } from "../src/index.js"; // in your program: "trade-thesis"

const client = new Client(process.env["API_URL"] ?? "", process.env["API_KEY"]);
const key = await client.getMe();
console.log("key:", key.name, key.environment, key.scopes);

const page = await client.listTheses({ token: "RUN", limit: 2 });
for (const { created_at, profile, text } of page.data) console.log(created_at, profile.handle, text);

// All rows of all pages, read as they are needed.
const authors = new Set<string>();
for await (const { profile } of client.iterateTheses({ token: "RUN", since: "24h" })) authors.add(profile.handle);
console.log("authors of a day:", authors.size);

const [thesis] = page.data;
if (thesis) {
  const verdict = await client.verifyThesis({
    handle: thesis.profile.handle,
    token: thesis.token.id,
    created_after: new Date(Date.parse(thesis.created_at) - 60_000),
  });
  console.log("verified:", verdict.verified, verdict.reason);
}

const found = await client.search({ q: "sandbox", types: ["profiles", "tokens"] });
console.log("found:", found.profiles.length, "profiles");

try {
  await client.getToken("NOSUCHTOKEN");
} catch (error) {
  if (!(error instanceof NotFoundError)) throw error;
  console.log("as expected:", error.code, error.requestId);
}
