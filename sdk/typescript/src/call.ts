// One request: its parts, and how its response is read.

export type QueryValue = string | number | boolean | Date | null | undefined;

/** A parameter of a query: name, value, and the style in which a list is written. */
export type QueryField = readonly [string, QueryValue | readonly QueryValue[], "plain" | "comma" | "repeat"];

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly query?: readonly QueryField[];
  readonly body?: object;
  /** Whether it takes an idempotency key. */
  readonly isIdempotent?: boolean;
  /** False if a repetition could do it twice. */
  readonly isRepeatable?: boolean;
}

/** Reads a response. `restart` gives what follows the whole timeout again. */
export type Reader<T> = (response: Response, restart: () => void) => Promise<T>;

export const readText: Reader<string> = (response) => response.text();

/** Reads a file, which may be too large for the timeout of a try: the timeout bounds each read. */
export const readBytes: Reader<Uint8Array> = async (response, restart) => {
  const reader = response.body?.getReader();
  const pieces: Uint8Array[] = [];
  let length = 0;
  for (let piece = await reader?.read(); piece?.value !== undefined; piece = await reader?.read()) {
    restart();
    pieces.push(piece.value);
    length += piece.value.length;
  }
  const file = new Uint8Array(length);
  let place = 0;
  for (const piece of pieces) {
    file.set(piece, place);
    place += piece.length;
  }
  return file;
};

/** One part of a path: a slash in it is encoded too. */
export function segment(value: string): string {
  return encodeURIComponent(value);
}

/** Several parts of a path with slashes between them. */
export function segments(value: string): string {
  return value.split("/").map(encodeURIComponent).join("/");
}

/** The address of a call. */
export function addressOf(baseUrl: string, { path, query = [] }: Call): string {
  const params = new URLSearchParams();
  for (const [name, value, style] of query) {
    if (value === undefined || value === null) continue;
    const values = Array.isArray(value) ? (value as readonly QueryValue[]) : [value as QueryValue];
    const texts = values.map((one) => (one instanceof Date ? one.toISOString() : String(one)));
    if (style === "comma") params.append(name, texts.join(","));
    else for (const text of texts) params.append(name, text);
  }
  const text = params.toString();
  return baseUrl + path + (text === "" ? "" : `?${text}`);
}
