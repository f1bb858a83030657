// What the tests share: clients whose service is a list of responses, and that do not sleep.
import { Client, type ClientOptions } from "../src/index.js";

export interface Sent {
  url: URL;
  method: string;
  headers: Record<string, string>;
  body: unknown;
}

type Answer = Response | Error | ((signal: AbortSignal | null | undefined) => Promise<Response>);

interface Scripted {
  client: Client;
  sent: Sent[];
  /** In milliseconds. */
  pauses: number[];
}

/** A client whose service gives one response after the other. */
export function scripted(answers: Answer[], options: ClientOptions = {}): Scripted {
  const sent: Sent[] = [];
  const pauses: number[] = [];
  const rest = [...answers];
  const send: typeof fetch = async (input, init = {}) => {
    const headers = init.headers as Record<string, string>;
    const body: unknown = typeof init.body === "string" ? JSON.parse(init.body) : undefined;
    sent.push({ url: new URL(input as string), method: init.method ?? "GET", headers, body });
    const answer = rest.shift();
    if (answer === undefined) throw new Error("the script has no more responses");
    if (answer instanceof Error) throw answer;
    return answer instanceof Response ? answer : await answer(init.signal);
  };
  class Tested extends Client {
    protected override sleep = (ms: number): Promise<void> => {
      pauses.push(ms);
      return Promise.resolve();
    };
  }
  return { client: new Tested("https://theses.example/", "svc_test_key", { fetch: send, ...options }), sent, pauses };
}

export function json(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return Response.json(body, { status, headers });
}

/** A response with an error. */
export function refusal(status: number, code: string, type: string, retryAfter?: number): Response {
  const headers: Record<string, string> = retryAfter === undefined ? {} : { "Retry-After": String(retryAfter) };
  const error = { type, code, message: "so it is", request_id: "req_1", param: "token" };
  return json({ error }, status, headers);
}

/** A failed connection, as `fetch` has it. */
export function broken(): Error {
  return new TypeError("fetch failed", { cause: new Error("ECONNREFUSED") });
}

/** A response that never comes. */
export function silent(signal: AbortSignal | null | undefined): Promise<Response> {
  return new Promise((_, reject) => {
    const end = (): void => {
      reject(signal?.reason as Error);
    };
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
  });
}
