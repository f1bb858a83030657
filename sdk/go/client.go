package tradethesis

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// The service responds within 10 seconds, if only with 503.
	defaultTimeout    = 15 * time.Second
	defaultMaxRetries = 5
	// A page of a list that the caller reads as a whole has the largest size.
	maxPageSize = 100
)

// Client calls the service with one API key, or without one. It is safe for concurrent use.
type Client struct {
	baseURL string
	// key is empty in a client without one.
	key        string
	http       *http.Client
	timeout    time.Duration
	maxRetries int
	userAgent  string
	sleep      func(context.Context, time.Duration) error
}

// Option is a setting of a [Client].
type Option func(*Client)

// WithHTTPClient replaces the HTTP client, for example to use a proxy or a certificate authority of your own. Leave its
// Timeout at zero, because it would end streams.
func WithHTTPClient(client *http.Client) Option {
	return func(c *Client) { c.http = client }
}

// WithTimeout sets the time for one try of a request. The default is 15 seconds. A deadline of the context limits all
// tries together.
func WithTimeout(timeout time.Duration) Option {
	return func(c *Client) { c.timeout = timeout }
}

// WithMaxRetries sets how often a request is repeated. The default is 5, and 0 switches repeats off.
func WithMaxRetries(retries int) Option {
	return func(c *Client) { c.maxRetries = retries }
}

// WithUserAgent adds the name of your program to the User-Agent header, such as "bot/1.2".
func WithUserAgent(program string) Option {
	return func(c *Client) { c.userAgent += " " + program }
}

// New makes a client for the address of a service, such as "https://api.example.com", and an API key.
func New(baseURL, key string, options ...Option) (*Client, error) {
	client, err := NewWithoutKey(baseURL, options...)
	if err != nil {
		return nil, err
	}
	// A key from a file may have an end of line.
	client.key = strings.TrimSpace(key)
	isOther := func(letter rune) bool { return letter <= ' ' || letter > '~' }
	if client.key == "" || strings.ContainsFunc(client.key, isOther) {
		return nil, errors.New("trade thesis: the API key is empty or has a character that no key has")
	}
	return client, nil
}

// NewWithoutKey makes a client that sends no API key. It suffices for what everybody may read: the status of the
// service, and the keys, checkpoints and tiles of its log. The service refuses all other calls with [CodeMissingAPIKey].
func NewWithoutKey(baseURL string, options ...Option) (*Client, error) {
	parsed, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("trade thesis: the address cannot be read: %w", err)
	}
	isOther := parsed.Scheme != "https" && parsed.Scheme != "http"
	if isOther || parsed.Host == "" || strings.ContainsAny(baseURL, "?#") {
		return nil, fmt.Errorf("trade thesis: %q is not the address of a service, such as https://api.example.com", baseURL)
	}
	client := &Client{
		baseURL: strings.TrimRight(baseURL, "/"),
		// The service never redirects, and a key must not follow a redirect to another place.
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		timeout:    defaultTimeout,
		maxRetries: defaultMaxRetries,
		userAgent:  "trade-thesis-go/" + Version,
		sleep:      sleep,
	}
	for _, option := range options {
		option(client)
	}
	return client, nil
}

// String names the service. It leaves out the key, so that no log shows it.
func (c *Client) String() string { return "trade thesis client of " + c.baseURL }

// GoString is [Client.String].
func (c *Client) GoString() string { return c.String() }

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
