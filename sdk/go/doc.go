// Package tradethesis is a client of the Trade Thesis Data Service.
//
// [New] makes a [Client]. Each operation of the API is a method of it, and each list has a method that reads all pages as
// an iterator. [Client.Stream] follows events over any break, [WebhookVerifier] verifies deliveries of webhooks, and
// [VerifyReceipt] checks receipts without network access.
//
// A refused request is an [*APIError]. Compare it with a code:
//
//	thesis, err := client.GetThesis(ctx, id)
//	if errors.Is(err, tradethesis.CodeThesisNotFound) {
//		return nil
//	}
//
// The client repeats a request after a broken connection, 429, 500, 502, 503 and 504, with growing pauses and not before
// the time in Retry-After. It sends each change with an idempotency key, so a repeat does nothing twice.
package tradethesis

// Version is the version of this package.
const Version = "0.1.0"
