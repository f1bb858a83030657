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

/** Reads a response. */
export type Reader<T> = (response: Response) => Promise<T>;

export const readText: Reader<string> = (response) => response.text();

export const readBytes: Reader<Uint8Array> = async (response) => new Uint8Array(await response.arrayBuffer());

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
