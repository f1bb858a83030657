// The quick start over REST, with a client that openapi-typescript and openapi-fetch make of the served description.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Failure = components["schemas"]["ErrorEnvelope"];

const api = createClient<paths>({
  baseUrl: process.env.API_URL!,
  headers: { Authorization: `Bearer ${process.env.API_KEY}` },
});

/** The data of an answer that is no error. */
async function told<T>(answer: Promise<{ data?: T; error?: Failure }>): Promise<T> {
  const { data, error } = await answer;
  assert(data !== undefined, error && `${error.error.code}: ${error.error.message} (${error.error.request_id})`);
  return data;
}

// Who am I?
const key = await told(api.GET("/v1/me"));
assert.equal(key.environment, "test");
assert(key.scopes.includes("theses:read"));

// Theses, and the next page of them.
const first = await told(api.GET("/v1/theses", { params: { query: { token: "RUN", limit: 2 } } }));
assert(first.has_more && first.next_cursor !== null);
const second = await told(
  api.GET("/v1/theses", { params: { query: { token: "RUN", limit: 2, cursor: first.next_cursor } } }),
);
const seen = [...first.data, ...second.data].map((thesis) => thesis.id);
assert.equal(new Set(seen).size, 4);

// One thesis, its author, its token.
const thesis = await told(api.GET("/v1/theses/{id}", { params: { path: { id: seen[0]! } } }));
const likes: number | null = thesis.likes;
assert(likes === null || likes >= 0);
const profile = await told(api.GET("/v1/profiles/{ref}", { params: { path: { ref: thesis.profile.handle } } }));
assert.equal(profile.id, thesis.profile.id);
const token = await told(api.GET("/v1/tokens/{ref}", { params: { path: { ref: "$RUN" } } }));
assert.equal(token.id, thesis.token.id);
const activity = await told(api.GET("/v1/tokens/{ref}/activity", { params: { path: { ref: "RUN" } } }));
assert.equal(activity.timeline.length, 24);

// Search, in two kinds of things.
const found = await told(
  api.GET("/v1/search", { params: { query: { q: "sandbox", types: "profiles,tokens", limit: 3 } } }),
);
assert(found.profiles.length > 0 && found.tokens.length > 0);

// A thesis of our own, proof of it, and its event.
const before = new Date(Date.now() - 60_000).toISOString();
const made = await told(
  api.POST("/v1/test/theses", {
    params: { header: { "Idempotency-Key": "rest-ts" } },
    body: { handle: "sdk", token: "RESTTS", text: "My first thesis." },
  }),
);
const proof = await told(
  api.POST("/v1/verify/thesis", {
    body: { handle: "sdk", token: "RESTTS", created_after: before, contains: "first" },
  }),
);
assert(proof.verified && proof.reason === "VERIFIED" && proof.checks.contains);
assert.equal(proof.thesis_id, made.thesis.id);
const event = await told(api.GET("/v1/events/{id}", { params: { path: { id: made.event.id } } }));
assert(event.type === "thesis.created");
assert.equal(event.data.thesis_id, made.thesis.id);
const events = await told(
  api.GET("/v1/events", { params: { query: { types: "thesis.created,token.activity", token: "RESTTS" } } }),
);
assert(events.data.some(({ id }) => id === made.event.id));

// What is not there has a code, and the request its id.
const missing = await api.GET("/v1/theses/{id}", { params: { path: { id: "th_0000000000000000000000000" } } });
assert.equal(missing.response.status, 404);
assert(missing.error?.error.code === "THESIS_NOT_FOUND");
assert.equal(missing.error.error.request_id, missing.response.headers.get("X-Service-Request-Id"));
// Details that belong to a code are typed.
const wrong = await api.GET("/v1/theses", { params: { query: { limit: 0 } } });
assert.deepEqual(wrong.error?.error.details?.errors?.map(({ param }) => param), ["limit"]);

// A webhook: made, changed, deleted.
const webhook = await told(
  api.POST("/v1/webhooks", {
    body: { url: "http://127.0.0.1:19996/", events: ["thesis.created"], filters: { token: ["RESTTS"] } },
  }),
);
assert(webhook.secret.startsWith("whsec_"));
const path = { id: webhook.id };
const changed = await told(
  api.PATCH("/v1/webhooks/{id}", {
    params: { path },
    body: { events: [...webhook.events, "profile.updated"], description: null, status: "disabled" },
  }),
);
assert.deepEqual([changed.status, changed.events.length, changed.filters.token], ["disabled", 2, ["RESTTS"]]);
const deleted = await told(api.DELETE("/v1/webhooks/{id}", { params: { path } }));
assert(deleted.deleted);
