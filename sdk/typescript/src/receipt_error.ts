import { TradeThesisError } from "./errors.js";

/** What is wrong. The guide "Receipts" explains each word. */
export type ReceiptReason =
  | "unreadable"
  | "number"
  | "evidence"
  | "entry"
  | "salt"
  | "form"
  | "origin"
  | "thesis"
  | "file"
  | "index"
  | "sequence"
  | "dataset"
  | "livemode"
  | "keys"
  | "key"
  | "unsigned"
  | "signature"
  | "untrusted"
  | "beyond"
  | "length"
  | "root"
  | "witness";

/** A document proves nothing. */
export class ReceiptError extends TradeThesisError {
  override readonly name: string = "ReceiptError";

  constructor(
    /** What is wrong. `unreadable` is no receipt at all. */
    readonly reason: ReceiptReason,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Throws unless a condition holds. */
export function demand(holds: boolean, reason: ReceiptReason, message: string): asserts holds {
  if (!holds) throw new ReceiptError(reason, message);
}
