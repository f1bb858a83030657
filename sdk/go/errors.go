package tradethesis

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// APIError is a refusal by the service. Compare it with a code or a type:
//
//	errors.Is(err, tradethesis.CodeThesisNotFound)
//	errors.Is(err, tradethesis.ErrorTypeRateLimit)
type APIError struct {
	// Status is the HTTP status.
	Status int
	// Type is the group of the code.
	Type ErrorType
	// Code says what is wrong. It is empty if a proxy responded in place of the service.
	Code ErrorCode
	// Message is a sentence for people. Its words may change.
	Message string
	// RequestID is the id of the request. Log it, and name it in requests for help.
	RequestID string
	// Param is the wrong parameter or field, if there is one.
	Param string
	// Details is more data for programs, if there is any.
	Details *ErrorDetails
	// DocURL is the paragraph of the documentation about the code.
	DocURL string
	// RetryAfter is the time to wait before the next try, if the service named one.
	RetryAfter time.Duration
}

// Error describes the refusal with its code and request id.
func (e *APIError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("trade thesis: status %d: %s", e.Status, e.Message)
	}
	return fmt.Sprintf("trade thesis: %s: %s (%s)", e.Code, e.Message, e.RequestID)
}

// Is compares the error with an [ErrorCode] or an [ErrorType].
func (e *APIError) Is(target error) bool {
	switch target := target.(type) {
	case ErrorCode:
		return e.Code == target
	case ErrorType:
		return e.Type == target
	}
	return false
}

// Error makes a code a target of [errors.Is].
func (c ErrorCode) Error() string { return string(c) }

// Error makes a type a target of [errors.Is].
func (t ErrorType) Error() string { return string(t) }

// ConnectionError says that no complete response came: the connection failed or broke, or the time of a try passed.
type ConnectionError struct {
	// Err is the cause.
	Err error
}

// Error describes the cause.
func (e *ConnectionError) Error() string { return "trade thesis: no response: " + e.Err.Error() }

// Timeout is true if the time of a try passed.
func (e *ConnectionError) Timeout() bool {
	var timeout interface{ Timeout() bool }
	return errors.As(e.Err, &timeout) && timeout.Timeout()
}

// Unwrap returns the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

// UnexpectedResponseError says that a successful response is not what the API sends: perhaps something between here and the
// service wrote it.
type UnexpectedResponseError struct {
	// Err is the cause.
	Err error
}

// Error describes the cause.
func (e *UnexpectedResponseError) Error() string {
	return "trade thesis: unexpected response: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *UnexpectedResponseError) Unwrap() error { return e.Err }

// refusal reads the error of a response.
func refusal(response *http.Response) error {
	// No error of the service is larger.
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return &ConnectionError{err}
	}
	var envelope struct {
		Error struct {
			Type      ErrorType       `json:"type"`
			Code      ErrorCode       `json:"code"`
			Message   string          `json:"message"`
			RequestID string          `json:"request_id"`
			Param     string          `json:"param"`
			Details   json.RawMessage `json:"details"`
			DocURL    string          `json:"doc_url"`
		} `json:"error"`
	}
	refused := &APIError{
		Status:     response.StatusCode,
		Message:    http.StatusText(response.StatusCode),
		RequestID:  response.Header.Get("X-Service-Request-Id"),
		RetryAfter: retryAfter(response.Header),
	}
	if json.Unmarshal(body, &envelope) != nil || envelope.Error.Code == "" {
		return refused
	}
	told := envelope.Error
	refused.Type, refused.Code, refused.Message = told.Type, told.Code, told.Message
	refused.RequestID, refused.Param, refused.DocURL = told.RequestID, told.Param, told.DocURL
	// A later version may add details of another form, which must not hide the error.
	var details ErrorDetails
	if len(told.Details) > 0 && json.Unmarshal(told.Details, &details) == nil {
		refused.Details = &details
	}
	return refused
}

func retryAfter(header http.Header) time.Duration {
	// A larger number is the largest one: a Duration with more seconds would be negative.
	seconds, err := strconv.ParseInt(header.Get("Retry-After"), 10, 32)
	if (err != nil && !errors.Is(err, strconv.ErrRange)) || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
