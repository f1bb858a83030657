export type { CallOptions, ClientOptions, StreamOptions } from "./base.js";
export { Client } from "./client.js";
export * from "./error_classes.js";
export {
  ApiConnectionError,
  ApiError,
  ApiTimeoutError,
  TradeThesisError,
  UnexpectedResponseError,
} from "./errors.js";
export { ReceiptError, type ReceiptReason } from "./receipt_error.js";
export { type ReceiptWitness, type VerifiedReceipt, verifyReceipt, type VerifyReceiptOptions } from "./receipts.js";
export type { EventStream, StreamMessage } from "./stream.js";
export type * from "./types.js";
export { VERSION } from "./version.js";
export {
  type HeadersLike,
  verifyWebhook,
  type WebhookEvent,
  type WebhookOptions,
  WebhookSignatureError,
} from "./webhooks.js";
