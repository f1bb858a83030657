// When a client tries again, and how it reads an error. Nothing here waits or sends.
import { ERROR_CLASSES } from "./error_classes.js";
import { ApiConnectionError, ApiError, type TradeThesisError } from "./errors.js";
import type { ErrorEnvelope } from "./types.js";

/** Seconds: if the service asks for a longer pause, the caller decides. */
const LONGEST_RETRY_AFTER = 120;
const LONGEST_PAUSE_MS = 30_000;
const FIRST_PAUSE_MS = 500;
const REPEATED_STATUSES = [429, 500, 502, 503, 504];

/** The error of a response. */
export async function refusal(response: Response): Promise<ApiError> {
  const text = await response.text();
  const seconds = Number(response.headers.get("Retry-After") ?? Number.NaN);
  const retryAfter = Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
  const error = errorOf(text) ?? {
    // Something between here and the service responded.
    type: "",
    code: "",
    message: `status ${response.status} without an error of the API: ${text.slice(0, 200)}`,
    request_id: response.headers.get("X-Service-Request-Id") ?? "",
  };
  const kind = Object.hasOwn(ERROR_CLASSES, error.type) ? ERROR_CLASSES[error.type] : undefined;
  return new (kind ?? ApiError)(response.status, error, retryAfter);
}

function errorOf(text: string): ErrorEnvelope["error"] | undefined {
  try {
    const { error } = JSON.parse(text) as Partial<ErrorEnvelope>;
    return typeof error?.code === "string" ? error : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the same request may succeed later. */
export function helpsAgain(error: TradeThesisError): boolean {
  if (!(error instanceof ApiError)) return error instanceof ApiConnectionError;
  const isPassing = REPEATED_STATUSES.includes(error.status) || error.code === "IDEMPOTENCY_IN_PROGRESS";
  return isPassing && error.code !== "QUOTA_EXCEEDED";
}

/** Seconds that an error asks for. */
export function retryAfterOf(error: TradeThesisError): number {
  return error instanceof ApiError ? (error.retryAfter ?? 0) : 0;
}

/** Milliseconds to wait before a retry, counted from 1; undefined if it would not help. */
export function pauseBefore(retry: number, error: TradeThesisError): number | undefined {
  const seconds = retryAfterOf(error);
  if (!helpsAgain(error) || seconds > LONGEST_RETRY_AFTER) return undefined;
  return seconds * 1000 + growingPause(retry);
}

/** A pause that grows, with a random part so that many clients do not return at once. */
export function growingPause(retry: number): number {
  return (0.5 + Math.random() / 2) * Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (retry - 1));
}
