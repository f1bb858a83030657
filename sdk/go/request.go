package tradethesis

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

const (
	firstPause = 500 * time.Millisecond
	maxPause   = 30 * time.Second
	// A longer wait is the caller's decision. The limits of a minute end before.
	maxRetryAfter = 2 * time.Minute
)

// CallOption is a setting of one call.
type CallOption func(*call)

// WithIdempotencyKey names the change that a call makes, in place of a random key. A call with the same key and the same
// parameters within 24 hours changes nothing and returns the first response, also from another process.
func WithIdempotencyKey(key string) CallOption {
	return func(c *call) {
		if c.isKeyed {
			c.key = key
		}
	}
}

// WithRange reads a part of a file, such as "bytes=0-1023".
func WithRange(value string) CallOption {
	return func(c *call) { c.byteRange = value }
}

// WithCallTimeout sets the time for one try of this call.
func WithCallTimeout(timeout time.Duration) CallOption {
	return func(c *call) { c.timeout = timeout }
}

// WithCallMaxRetries sets how often this call is repeated, and 0 switches repeats off.
func WithCallMaxRetries(retries int) CallOption {
	return func(c *call) { c.maxRetries = retries }
}

// call is one request with all its repeats. Each operation that changes something, except a deletion, takes an
// idempotency key. All others are reads, whatever their method, so every call may be repeated.
type call struct {
	method, path string
	query        url.Values
	body         any
	// isKeyed is true for an operation that takes an idempotency key.
	isKeyed     bool
	key         string
	byteRange   string
	lastEventID string
	timeout     time.Duration
	maxRetries  int
	// err is set if the parameters name no path.
	err error
}

func (c call) withQuery(query url.Values) call {
	c.query = query
	return c
}

func (c call) withBody(body any) call {
	c.body = body
	return c
}

func (c call) keyed() call {
	c.isKeyed = true
	return c
}

func (c *Client) start(call *call, options []CallOption) error {
	if call.err != nil {
		return call.err
	}
	call.timeout, call.maxRetries = c.timeout, c.maxRetries
	for _, option := range options {
		option(call)
	}
	if call.isKeyed && call.key == "" {
		var random [16]byte
		if _, err := rand.Read(random[:]); err != nil {
			return fmt.Errorf("trade thesis: no random number: %w", err)
		}
		call.key = uuid(random)
	}
	return nil
}

// uuid writes random bytes as a UUID of version 4.
func uuid(random [16]byte) string {
	random[6] = random[6]&0x0f | 0x40
	random[8] = random[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", random[:4], random[4:6], random[6:8], random[8:10], random[10:])
}

// do makes a call whose response is JSON.
func do[T any](ctx context.Context, c *Client, call call, options []CallOption) (*T, error) {
	content, err := c.read(ctx, call, options)
	if err != nil {
		return nil, err
	}
	var result T
	if err := json.Unmarshal(content, &result); err != nil {
		return nil, &UnexpectedResponseError{fmt.Errorf("%s %s: %w", call.method, call.path, err)}
	}
	return &result, nil
}

// readText makes a call whose response is a text.
func (c *Client) readText(ctx context.Context, call call, options []CallOption) (string, error) {
	content, err := c.read(ctx, call, options)
	return string(content), err
}

// read makes a call and returns the body of the response.
func (c *Client) read(ctx context.Context, call call, options []CallOption) ([]byte, error) {
	if err := c.start(&call, options); err != nil {
		return nil, err
	}
	var content []byte
	err := c.repeat(ctx, call.maxRetries, func() error {
		attempt, cancel := context.WithTimeout(ctx, call.timeout)
		defer cancel()
		response, err := c.send(attempt, call)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if content, err = io.ReadAll(response.Body); err != nil {
			return &ConnectionError{err}
		}
		return nil
	})
	return content, err
}

// open makes a call and returns the body of the response while it arrives. The timeout ends with the head.
func (c *Client) open(ctx context.Context, call call, options []CallOption) (io.ReadCloser, error) {
	if err := c.start(&call, options); err != nil {
		return nil, err
	}
	var body io.ReadCloser
	err := c.repeat(ctx, call.maxRetries, func() error {
		response, cancel, err := c.sendHead(ctx, call)
		if err != nil {
			return err
		}
		body = &cancelingBody{response.Body, cancel}
		return nil
	})
	return body, err
}

// cancelingBody frees what belongs to a request when its body is closed.
type cancelingBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelingBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// sendHead is send with a timeout for the head of the response. The caller cancels the request when it has the body.
func (c *Client) sendHead(ctx context.Context, call call) (*http.Response, context.CancelFunc, error) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(call.timeout, cancel)
	response, err := c.send(ctx, call)
	if !timer.Stop() {
		if err == nil {
			response.Body.Close()
		}
		err = &ConnectionError{context.DeadlineExceeded}
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return response, cancel, nil
}

// send makes one try. Its error is an [*APIError], a [*ConnectionError], or one that no repeat mends.
func (c *Client) send(ctx context.Context, call call) (*http.Response, error) {
	request, err := c.request(ctx, call)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, &ConnectionError{err}
	}
	if response.StatusCode >= 300 {
		defer response.Body.Close()
		return nil, refusal(response)
	}
	return response, nil
}

func (c *Client) request(ctx context.Context, call call) (*http.Request, error) {
	address := c.baseURL + call.path
	if len(call.query) > 0 {
		address += "?" + call.query.Encode()
	}
	var body io.Reader
	if call.body != nil {
		content, err := json.Marshal(call.body)
		if err != nil {
			return nil, fmt.Errorf("trade thesis: %w", err)
		}
		body = bytes.NewReader(content)
	}
	request, err := http.NewRequestWithContext(ctx, call.method, address, body)
	if err != nil {
		return nil, fmt.Errorf("trade thesis: %w", err)
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	request.Header.Set("User-Agent", c.userAgent)
	if call.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if call.key != "" {
		request.Header.Set("Idempotency-Key", call.key)
	}
	if call.lastEventID != "" {
		request.Header.Set("Last-Event-ID", call.lastEventID)
	}
	if call.byteRange != "" {
		request.Header.Set("Range", call.byteRange)
	}
	return request, nil
}

// repeat makes tries until one succeeds or no further one helps.
func (c *Client) repeat(ctx context.Context, maxRetries int, try func() error) error {
	for attempt := 1; ; attempt++ {
		err := try()
		if err == nil {
			return nil
		}
		pause, helps := pauseAfter(err, attempt)
		if !helps || attempt > maxRetries || ctx.Err() != nil {
			return err
		}
		if deadline, limited := ctx.Deadline(); limited && time.Until(deadline) < pause {
			return err
		}
		if c.sleep(ctx, pause) != nil {
			return err
		}
	}
}

// pauseAfter returns the pause before the next try, and whether one helps.
func pauseAfter(err error, attempt int) (time.Duration, bool) {
	var refused *APIError
	if errors.As(err, &refused) {
		return refused.RetryAfter + growing(attempt), isTransient(refused) && refused.RetryAfter <= maxRetryAfter
	}
	var broken *ConnectionError
	return growing(attempt), errors.As(err, &broken)
}

// isTransient is true if the same request may succeed later.
func isTransient(refused *APIError) bool {
	switch refused.Status {
	case http.StatusTooManyRequests:
		return refused.Code != CodeQuotaExceeded
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return refused.Code == CodeIdempotencyInProgress
}

// growing doubles the pause with each try. A random part of it keeps many clients from returning at the same moment.
func growing(attempt int) time.Duration {
	pause := firstPause << min(attempt-1, 10)
	pause = min(pause, maxPause)
	return pause/2 + mathrand.N(pause/2)
}
