import { addressOf, type Call, type Reader } from "./call.js";
import { ApiConnectionError, ApiTimeoutError, TradeThesisError, UnexpectedResponseError } from "./errors.js";
import { pauseBefore, refusal } from "./policy.js";
import { EventStream, type Opening, SILENCE_MS } from "./stream.js";
import type { Event, StreamGap } from "./types.js";
import { VERSION } from "./version.js";

const TIMEOUT_MS = 15_000;
const MAX_RETRIES = 5;
/** Rows of a page when a list is read as a whole, unless the caller gives a limit. */
const MAX_PAGE_SIZE = 100;

/** What a client does for all calls. */
export interface ClientOptions {
  /** Milliseconds for each try, to the last byte of its response; of a file, for each read. 15,000 unless given. */
  timeoutMs?: number | undefined;
  /** Tries after the first one; 5 unless given. */
  maxRetries?: number | undefined;
  /** The name of your program, such as `bot/1.2`. The header `User-Agent` has it after that of this package. */
  userAgent?: string | undefined;
  /** Sends the requests, for example through a proxy. */
  fetch?: typeof fetch | undefined;
}

/** What one call does otherwise than its client. */
export interface CallOptions {
  /** Milliseconds for each try. */
  timeoutMs?: number | undefined;
  /** Tries after the first one. */
  maxRetries?: number | undefined;
  /** Ends the call. */
  signal?: AbortSignal | undefined;
  /** Makes the call repeatable for 24 hours; a random one unless given. Only for operations that take one. */
  idempotencyKey?: string | undefined;
}

export interface StreamOptions {
  /** Resumes after this cursor, the one of the last message that was handled. */
  cursor?: string | undefined;
  /**
   * Gives a new ticket, for pages: they must not have a key. It is called each time the stream opens. Make the client
   * without a key then.
   */
  ticket?: (() => Promise<string>) | undefined;
  /** Ends the stream. */
  signal?: AbortSignal | undefined;
}

interface Page {
  data: unknown[];
  next_cursor: string | null;
  has_more: boolean;
}

/** What all operations share. */
export abstract class Base {
  readonly #baseUrl: string;
  readonly #headers: Record<string, string>;
  readonly #timeoutMs: number;
  readonly #maxRetries: number;
  readonly #fetch: typeof fetch;
  /** Waits; tests replace it. */
  protected sleep: (ms: number, signal?: AbortSignal) => Promise<void> = sleep;

  /**
   * Makes a client. It opens no connection before the first request.
   *
   * @param baseUrl - The address of the service, such as `https://theses.example`.
   * @param apiKey - A key, `svc_test_…` or `svc_live_…`. Undefined suffices for what everybody may read, such as the
   * keys of the log, and for streams with tickets.
   */
  constructor(baseUrl: string, apiKey: string | undefined, options: ClientOptions = {}) {
    if (!/^https?:$/.test(new URL(baseUrl).protocol) || /[?#]/.test(baseUrl)) {
      throw new TypeError(`no address of a service: ${baseUrl}`);
    }
    this.#baseUrl = baseUrl.replace(/\/+$/, "");
    this.#headers = { Accept: "application/json, */*;q=0.5", ...userAgent(options.userAgent) };
    if (apiKey !== undefined) {
      // A key from a file may have an end of line.
      const key = apiKey.trim();
      if (!/^[!-~]+$/.test(key)) throw new TypeError("the API key is empty or has a character that no key has");
      this.#headers["Authorization"] = `Bearer ${key}`;
    }
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#maxRetries = options.maxRetries ?? MAX_RETRIES;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /**
   * Iterates over the events of a gap, the newest first. A few events of its first and last millisecond may have come
   * before: know them by their ids.
   */
  missedEvents(gap: StreamGap, options: CallOptions = {}): AsyncGenerator<Event, void, void> {
    const [path = "", query] = gap.path.split("?", 2);
    // What follows the address of the service could make it another one, which would get the key.
    if (path !== "/v1/events") throw new TypeError(`${JSON.stringify(gap.path)} is not the path of a gap`);
    const fields = [...new URLSearchParams(query)].map(([name, value]) => [name, value, "plain"] as const);
    return this.rows<Event>({ method: "GET", path, query: fields }, options);
  }

  /** Sends a request, and repeats it where that helps. */
  protected async call<T>(call: Call, options: CallOptions, read: Reader<T> = readJson): Promise<T> {
    // An address without a part, or with dots in its place, is another one.
    if (/\/\.{0,2}(\/|$)/.test(call.path)) throw new TypeError(`a part of the path ${call.path} names nothing`);
    const headers = { ...this.#headers };
    if (call.isIdempotent) headers["Idempotency-Key"] = options.idempotencyKey ?? crypto.randomUUID();
    const maxRetries = call.isRepeatable === false ? 0 : (options.maxRetries ?? this.#maxRetries);
    for (let retry = 1; ; retry++) {
      const error = await this.#try(call, headers, options, read);
      if ("result" in error) return error.result;
      const pause = retry > maxRetries ? undefined : pauseBefore(retry, error.error);
      if (pause === undefined) throw error.error;
      await this.sleep(pause, options.signal);
    }
  }

  async #try<T>(
    call: Call,
    headers: Record<string, string>,
    options: CallOptions,
    read: Reader<T>,
  ): Promise<{ result: T } | { error: TradeThesisError }> {
    const limit = limited(options.timeoutMs ?? this.#timeoutMs, options.signal);
    const init: RequestInit = { method: call.method, headers, signal: limit.signal, redirect: "manual" };
    if (call.body !== undefined) {
      init.body = JSON.stringify(call.body);
      init.headers = { ...headers, "Content-Type": "application/json" };
    }
    try {
      const response = await this.#fetch(addressOf(this.#baseUrl, call), init);
      return response.ok ? { result: await read(response, limit.restart) } : { error: await refusal(response) };
    } catch (error) {
      return { error: failure(error, limit.signal, options.signal) };
    } finally {
      limit.end();
    }
  }

  /** The rows of all pages. */
  protected async *rows<T>(call: Call, options: CallOptions): AsyncGenerator<T, void, void> {
    let page: Page | undefined;
    const { query = [] } = call;
    const isSized = query.some(([name, value]) => name === "limit" && value !== undefined && value !== null);
    const sized = isSized ? query : [...query, ["limit", MAX_PAGE_SIZE, "plain"] as const];
    do {
      const cursor = page === undefined ? [] : ([["cursor", page.next_cursor, "plain"]] as const);
      page = await this.call<Page>({ ...call, query: [...sized, ...cursor] }, options);
      if (!Array.isArray(page.data)) throw new UnexpectedResponseError(`${call.path}: no page of a list`);
      yield* page.data as T[];
      // Without a cursor the next page would be the first one again.
    } while (page.has_more && typeof page.next_cursor === "string");
  }

  /** A stream of events. */
  protected stream(call: Call, options: StreamOptions): EventStream {
    const opening: Opening = async (cursor, connection) => {
      const { signal } = connection;
      const headers: Record<string, string> = { ...this.#headers, Accept: "text/event-stream" };
      if (cursor !== undefined) headers["Last-Event-ID"] = cursor;
      let { query = [] } = call;
      if (options.ticket) {
        delete headers["Authorization"];
        query = [...query, ["ticket", await options.ticket(), "plain"]];
      }
      const address = addressOf(this.#baseUrl, { ...call, query });
      const timeout = setTimeout(() => {
        connection.abort(new ApiTimeoutError("the stream did not open in time"));
      }, this.#timeoutMs);
      try {
        const response = await this.#fetch(address, { headers, signal, cache: "no-store", redirect: "manual" });
        // What an error says must come in the same time.
        if (!response.ok) throw await refusal(response);
        return response;
      } catch (error) {
        throw failure(error, signal, options.signal);
      } finally {
        clearTimeout(timeout);
      }
    };
    return new EventStream(opening, options, this.#maxRetries, (ms, signal) => this.sleep(ms, signal), SILENCE_MS);
  }
}

async function readJson<T>(response: Response): Promise<T> {
  const text = await response.text();
  try {
    return JSON.parse(text) as T;
  } catch (error) {
    throw new UnexpectedResponseError(`the response is not JSON: ${text.slice(0, 200)}`, { cause: error });
  }
}

/** The end of a request: after a time, which can start again, or when the caller ends it. */
interface Limit {
  readonly signal: AbortSignal;
  readonly restart: () => void;
  readonly end: () => void;
}

/** Ends a request after a time, or when the caller ends it. `AbortSignal.timeout` would not keep a program running. */
function limited(ms: number, ended: AbortSignal | undefined): Limit {
  const controller = new AbortController();
  const stop = (): void => {
    controller.abort(ended?.reason);
  };
  const late = (): void => {
    controller.abort(new ApiTimeoutError("the service did not respond in time"));
  };
  let timer = setTimeout(late, ms);
  const restart = (): void => {
    clearTimeout(timer);
    timer = setTimeout(late, ms);
  };
  ended?.addEventListener("abort", stop, { once: true });
  if (ended?.aborted) stop();
  const end = (): void => {
    clearTimeout(timer);
    ended?.removeEventListener("abort", stop);
  };
  return { signal: controller.signal, restart, end };
}

/** The error for a failure of `fetch`. What the caller ended is theirs. */
function failure(error: unknown, signal: AbortSignal, ended: AbortSignal | undefined): TradeThesisError {
  if (ended?.aborted) throw ended.reason;
  if (signal.reason instanceof ApiTimeoutError) return signal.reason;
  if (error instanceof TradeThesisError) return error;
  const reason = error instanceof Error ? error : new Error(String(error));
  const cause = reason.cause instanceof Error ? `: ${reason.cause.message}` : "";
  return new ApiConnectionError(reason.message + cause, { cause: error });
}

async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal?.addEventListener("abort", end, { once: true });
    if (signal?.aborted) end();
  });
}

/** Browsers name themselves. */
function userAgent(program: string | undefined): Record<string, string> {
  const runtime = globalThis as { process?: { versions?: { node?: string } } };
  if (runtime.process?.versions?.node === undefined) return {};
  const own = `trade-thesis-typescript/${VERSION}`;
  return { "User-Agent": program === undefined ? own : `${own} ${program}` };
}
