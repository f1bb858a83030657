import type { ErrorCode, ErrorDetails, ErrorType } from "./types.js";
import type { Error as ErrorBody } from "./types.js";

/** Everything that this package throws. */
export class TradeThesisError extends Error {
  override readonly name: string = "TradeThesisError";
}

/** The service could not be reached, or the connection broke. It may have acted on the request nevertheless. */
export class ApiConnectionError extends TradeThesisError {
  override readonly name: string = "ApiConnectionError";
}

/** The service did not respond in time. */
export class ApiTimeoutError extends ApiConnectionError {
  override readonly name: string = "ApiTimeoutError";
}

/** A successful response is not what the API sends: perhaps something between here and the service wrote it. */
export class UnexpectedResponseError extends TradeThesisError {
  override readonly name: string = "UnexpectedResponseError";
}

/**
 * The service refused a request.
 *
 * Decide by `code`. `message` is for people, and `requestId` names the request to those who run the service.
 */
export class ApiError extends TradeThesisError {
  override readonly name: string = "ApiError";
  /** The code, such as `TOKEN_NOT_FOUND`. It is empty if something other than the service responded. */
  readonly code: ErrorCode;
  /** The class of the error, such as `not_found`. */
  readonly type: ErrorType;
  /** Equals the header `X-Service-Request-Id` of the response. */
  readonly requestId: string;
  /** The field or parameter at fault. */
  readonly param: string | undefined;
  /** More data, depending on the code. */
  readonly details: ErrorDetails | undefined;
  /** The page that explains the code. */
  readonly docUrl: string | undefined;

  constructor(
    /** The status of the response. */
    readonly status: number,
    /** The error as the service sent it. */
    readonly error: ErrorBody,
    /** Seconds after which a repetition may help, if the service names them. */
    readonly retryAfter: number | undefined,
  ) {
    // Something other than the service gives neither code nor id.
    const code = error.code === "" ? "" : `${error.code}: `;
    const requestId = error.request_id === "" ? "" : ` (${error.request_id})`;
    super(code + error.message + requestId);
    this.code = error.code;
    this.type = error.type;
    this.requestId = error.request_id;
    this.param = error.param;
    this.details = error.details;
    this.docUrl = error.doc_url;
  }
}
