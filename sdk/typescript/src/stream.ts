import { ApiConnectionError, ApiTimeoutError, TradeThesisError, UnexpectedResponseError } from "./errors.js";
import { growingPause, helpsAgain, pauseBefore, retryAfterOf } from "./policy.js";
import { type Frame, Parser } from "./sse.js";
import type { Event, StreamGap } from "./types.js";

/** Milliseconds without a byte after which a stream is dead: the service sends something every 15 seconds. */
export const SILENCE_MS = 45_000;
/** The maximum of `setTimeout`. A timer with a larger number fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** What a stream brings. Store the cursor once you have handled the message. */
export type StreamMessage =
  | { readonly type: "event"; readonly event: Event; readonly cursor: string }
  /** Events that the service did not replay. `missedEvents` of the client reads them. */
  | { readonly type: "gap"; readonly gap: StreamGap; readonly cursor: string };

type Step = StreamMessage | { readonly type: "cursor" | "end"; readonly cursor: string };

/** Opens a stream that continues after a cursor, or throws its refusal. The controller ends the connection. */
export type Opening = (cursor: string | undefined, connection: AbortController) => Promise<Response>;

/** Iterates over the messages of a stream, over any break. Leave the loop to close it. */
export class EventStream implements AsyncIterable<StreamMessage> {
  #cursor: string | undefined;
  #failures = 0;
  #wasOpen = false;
  #serverPause: number | undefined;
  readonly #opening: Opening;
  readonly #signal: AbortSignal | undefined;
  readonly #maxRetries: number;
  readonly #sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  readonly #silenceMs: number;
  readonly #messages: AsyncGenerator<StreamMessage, void, void>;

  constructor(
    opening: Opening,
    { cursor, signal }: { cursor?: string | undefined; signal?: AbortSignal | undefined },
    maxRetries: number,
    sleep: (ms: number, signal?: AbortSignal) => Promise<void>,
    silenceMs: number,
  ) {
    this.#opening = opening;
    this.#cursor = cursor;
    this.#signal = signal;
    this.#maxRetries = maxRetries;
    this.#sleep = sleep;
    this.#silenceMs = silenceMs;
    this.#messages = this.#follow();
  }

  /** The position after the last message that was taken, or a later one before the next message. */
  get cursor(): string | undefined {
    return this.#cursor;
  }

  [Symbol.asyncIterator](): AsyncGenerator<StreamMessage, void, void> {
    return this.#messages;
  }

  /** The messages of all connections. */
  async *#follow(): AsyncGenerator<StreamMessage, void, void> {
    while (true) {
      let pause: number | undefined;
      try {
        for await (const step of this.#connection()) {
          if (step.type === "end") return;
          if (step.type === "event" || step.type === "gap") yield step;
        }
        pause = this.#pauseAfterBreak();
      } catch (error) {
        if (!(error instanceof TradeThesisError)) throw error;
        const isBreak = this.#wasOpen && error instanceof ApiConnectionError;
        pause = isBreak ? this.#pauseAfterBreak() : this.#pauseAfter(error);
        if (pause === undefined) throw error;
      }
      await this.#sleep(pause, this.#signal);
    }
  }

  /** The steps of one connection. */
  async *#connection(): AsyncGenerator<Step, void, void> {
    const connection = new AbortController();
    const end = (): void => {
      connection.abort(this.#signal?.reason);
    };
    this.#signal?.addEventListener("abort", end, { once: true });
    try {
      this.#signal?.throwIfAborted();
      const response = await this.#opening(this.#cursor, connection);
      this.#wasOpen = true;
      if (response.status === 204 || response.body === null) {
        yield { type: "end", cursor: this.#cursor ?? "" };
        return;
      }
      yield* this.#steps(response.body, connection);
    } finally {
      this.#signal?.removeEventListener("abort", end);
      connection.abort();
    }
  }

  async *#steps(body: ReadableStream<Uint8Array>, connection: AbortController): AsyncGenerator<Step, void, void> {
    const reader = body.getReader();
    const parser = new Parser();
    while (true) {
      const piece = await this.#read(reader, connection);
      if (piece === undefined) return;
      const frames = parser.feed(piece);
      this.#serverPause = parser.retry ?? this.#serverPause;
      for (const frame of frames) {
        // The service is there: the next break is a new one.
        this.#failures = 0;
        const step = readStep(frame);
        this.#cursor = step.cursor;
        yield step;
      }
    }
  }

  /** The next bytes; undefined at the end. */
  async #read(
    reader: ReadableStreamDefaultReader<Uint8Array>,
    connection: AbortController,
  ): Promise<Uint8Array | undefined> {
    const silence = setTimeout(() => {
      connection.abort(new ApiTimeoutError("the stream was silent for too long"));
    }, this.#silenceMs);
    try {
      return (await reader.read()).value;
    } catch (error) {
      if (this.#signal?.aborted) throw this.#signal.reason;
      if (error instanceof TradeThesisError) throw error;
      throw new ApiConnectionError("the stream broke", { cause: error });
    } finally {
      clearTimeout(silence);
    }
  }

  /** Milliseconds to wait after a connection ended or broke. */
  #pauseAfterBreak(): number {
    this.#failures += 1;
    return this.#failures === 1 && this.#serverPause !== undefined ? this.#serverPause : growingPause(this.#failures);
  }

  /** Milliseconds to wait after the stream could not be opened; undefined to give up. */
  #pauseAfter(error: TradeThesisError): number | undefined {
    this.#failures += 1;
    if (!this.#wasOpen) return this.#failures > this.#maxRetries ? undefined : pauseBefore(this.#failures, error);
    if (!helpsAgain(error)) return undefined;
    return Math.min(retryAfterOf(error) * 1000 + growingPause(this.#failures), LONGEST_TIMER_MS);
  }
}

/** What a frame brings. */
function readStep({ event, data, id: cursor }: Frame): Step {
  if (event === "stream.end") return { type: "end", cursor };
  try {
    if (event === "stream.gap") return { type: "gap", gap: JSON.parse(data) as StreamGap, cursor };
    if (!event.startsWith("stream.")) return { type: "event", event: JSON.parse(data) as Event, cursor };
  } catch (error) {
    throw new UnexpectedResponseError(`the frame ${event} of the stream is not JSON`, { cause: error });
  }
  return { type: "cursor", cursor };
}
