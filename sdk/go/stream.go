package tradethesis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// The service sends a cursor every 15 seconds, so silence means that the connection is dead.
	streamSilence = 45 * time.Second
	// The pause before a stream opens again, until the service names one.
	defaultStreamPause = 2 * time.Second
)

// StreamMessage is an event or a gap. Exactly one of the two is set.
type StreamMessage struct {
	// Cursor is the place after this message. Store it when you have handled the message, and give it as FromCursor of
	// the next stream.
	Cursor string
	// Event is what happened.
	Event *Event
	// Gap names events that the service left out, because more were missed than it sends again.
	// [Client.MissedEvents] reads them.
	Gap *StreamGap
}

// Stream follows events. After a break it opens again with the last cursor, so nothing is lost or doubled.
type Stream struct {
	client *Client
	query  url.Values
	cursor string
	// pause is the time to wait before the stream opens again.
	pause time.Duration
	// failures counts tries since the last frame.
	failures int
	wasOpen  bool
	silence  time.Duration
}

// Stream prepares a stream of events that match the parameters. [Stream.Messages] opens it.
func (c *Client) Stream(params *StreamEventsParams) *Stream {
	stream := &Stream{client: c, query: params.query(), pause: defaultStreamPause, silence: streamSilence}
	stream.cursor = stream.query.Get("from_cursor")
	stream.query.Del("from_cursor")
	return stream
}

// Cursor is the place up to which the stream has been read. It moves even when no event matches. Store it, if at all,
// only when all messages so far have been handled.
func (s *Stream) Cursor() string { return s.cursor }

// Messages opens the stream and iterates over its messages. It ends at the end of a replay, when you leave the loop, and
// after an error that no further try mends: a refusal, the end of the context, or a first opening that fails as often as
// any call may.
func (s *Stream) Messages(ctx context.Context) iter.Seq2[StreamMessage, error] {
	return func(yield func(StreamMessage, error) bool) {
		for {
			err := s.follow(ctx, yield)
			if err == nil || errors.Is(err, errStopped) {
				return
			}
			pause, helps := s.pauseAfter(err)
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			if !helps || ctx.Err() != nil {
				yield(StreamMessage{}, err)
				return
			}
			if err := s.client.sleep(ctx, pause); err != nil {
				yield(StreamMessage{}, err)
				return
			}
		}
	}
}

// errStopped says that the caller has left its loop.
var errStopped = errors.New("the loop ended")

// follow reads one connection. It returns nil at the end of a replay.
func (s *Stream) follow(ctx context.Context, yield func(StreamMessage, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNoContent {
		return nil
	}
	s.wasOpen = true
	frames := newFrames(newSilenceReader(response.Body, s.silence, cancel))
	for {
		read, err := frames.next()
		if err != nil {
			return &ConnectionError{err}
		}
		s.failures = 0
		if read.retry > 0 {
			s.pause = read.retry
		}
		message, err := s.message(read)
		if err != nil {
			return err
		}
		if (message.Event != nil || message.Gap != nil) && !yield(message, nil) {
			return errStopped
		}
		if read.event == "stream.end" {
			return nil
		}
	}
}

// open sends the request. The timeout of the client ends with the head of the response.
func (s *Stream) open(ctx context.Context) (*http.Response, error) {
	call := call{method: http.MethodGet, path: "/v1/events/stream", query: s.query, timeout: s.client.timeout}
	call.lastEventID = s.cursor
	response, _, err := s.client.sendHead(ctx, call)
	return response, err
}

// message reads a frame and moves the cursor behind it.
func (s *Stream) message(read frame) (StreamMessage, error) {
	var message StreamMessage
	if read.data != "" {
		var target any
		switch {
		case read.event == "stream.gap":
			message.Gap = new(StreamGap)
			target = message.Gap
		case !strings.HasPrefix(read.event, "stream."):
			message.Event = new(Event)
			target = message.Event
		}
		if target != nil {
			if err := json.Unmarshal([]byte(read.data), target); err != nil {
				return message, &UnexpectedResponseError{fmt.Errorf("the frame %q of the stream: %w", read.event, err)}
			}
		}
	}
	if read.id != "" {
		s.cursor = read.id
	}
	message.Cursor = s.cursor
	return message, nil
}

// pauseAfter returns the pause before the stream opens again, and whether that helps.
func (s *Stream) pauseAfter(err error) (time.Duration, bool) {
	s.failures++
	var refused *APIError
	var broken *ConnectionError
	pause := s.pause
	switch {
	case errors.As(err, &refused):
		// A stream that was open waits for as long as the service says.
		if !isTransient(refused) || (!s.wasOpen && refused.RetryAfter > maxRetryAfter) {
			return 0, false
		}
		pause = refused.RetryAfter + growing(s.failures)
	case !errors.As(err, &broken):
		return 0, false
	case s.failures > 1 || !s.wasOpen:
		pause = growing(s.failures)
	}
	return pause, s.wasOpen || s.failures <= s.client.maxRetries
}

// silenceReader cancels a request when nothing comes for some time while somebody reads.
type silenceReader struct {
	body    io.Reader
	silence time.Duration
	timer   *time.Timer
}

func newSilenceReader(body io.Reader, silence time.Duration, cancel context.CancelFunc) *silenceReader {
	timer := time.AfterFunc(silence, cancel)
	timer.Stop()
	return &silenceReader{body, silence, timer}
}

func (r *silenceReader) Read(into []byte) (int, error) {
	r.timer.Reset(r.silence)
	defer r.timer.Stop()
	return r.body.Read(into)
}

// MissedEvents reads the events of a gap, the newest first. It may bring a few events of the first and the last
// millisecond that you know already: compare their ids.
func (c *Client) MissedEvents(ctx context.Context, gap *StreamGap) iter.Seq2[Event, error] {
	path, query, _ := strings.Cut(gap.Path, "?")
	values, err := url.ParseQuery(query)
	if err != nil || path != "/v1/events" {
		return func(yield func(Event, error) bool) {
			yield(Event{}, fmt.Errorf("trade thesis: %q is not the path of a gap", gap.Path))
		}
	}
	return all[Event](ctx, c, call{method: http.MethodGet, path: path, query: values}, nil)
}
