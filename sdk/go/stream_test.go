package tradethesis

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func sent(frames string) answer {
	return answer{200, map[string]string{"Content-Type": "text/event-stream"}, frames}
}

func eventFrame(cursor, id string) string {
	return fmt.Sprintf("id: %s\nevent: thesis.created\ndata: {\"object\":\"event\",\"id\":%q,\"type\":\"thesis.created\"}\n\n",
		cursor, id)
}

const endFrame = "id: end\nevent: stream.end\ndata: {\"object\":\"stream_cursor\",\"cursor\":\"end\"}\n\n"

// told reads a stream to its end, and writes each message as one word.
func told(stream *Stream) ([]string, error) {
	var words []string
	for message, err := range stream.Messages(context.Background()) {
		switch {
		case err != nil:
			return words, err
		case message.Gap != nil:
			words = append(words, "gap>"+message.Cursor)
		default:
			words = append(words, message.Event.ID+">"+message.Cursor)
		}
	}
	return words, nil
}

func TestAStreamResumesWithItsCursor(t *testing.T) {
	service := newService(t,
		sent("id: c0\nevent: stream.cursor\ndata: {}\nretry: 1234\n\n"+eventFrame("c1", "e1")+"id: c2\nevent: thesis.cre…"),
		sent(": ping\n\nid: c3\nevent: stream.cursor\ndata: {}\n\n"),
		answer{},
		refused(503, ErrorTypeInternal, CodeServiceUnavailable, map[string]string{"Retry-After": "3"}),
		sent("id: c8\nevent: stream.gap\ndata: {\"first_cursor\":\"c3\",\"last_cursor\":\"c8\",\"skipped\":4,\"path\":\"/v1/events?a=1\"}\n\n"+
			eventFrame("c9", "e9")),
		sent(eventFrame("c10", "e10")+endFrame),
	)
	stream := service.client.Stream(&StreamEventsParams{Token: []string{"RUN"}, FromCursor: "old"})
	words, err := told(stream)
	if err != nil || fmt.Sprint(words) != "[e1>c1 gap>c8 e9>c9 e10>c10]" || stream.Cursor() != "end" {
		t.Fatal(words, err, stream.Cursor())
	}
	var cursors []string
	for _, request := range service.requests {
		cursors = append(cursors, request.Header.Get("Last-Event-ID"))
		if query := request.URL.RawQuery; query != "token=RUN" {
			t.Error(query)
		}
	}
	if fmt.Sprint(cursors) != "[old c1 c3 c3 c3 c9]" {
		t.Error(cursors)
	}
	if len(service.pauses) != 5 || service.pauses[0] != 1234*time.Millisecond || service.pauses[1] != service.pauses[0] {
		t.Error(service.pauses)
	}
	if service.pauses[3] < 3*time.Second {
		t.Error("Retry-After is not kept", service.pauses)
	}
}

func TestAStreamEndsWithoutContent(t *testing.T) {
	service := newService(t, answer{status: http.StatusNoContent})
	if words, err := told(service.client.Stream(nil)); err != nil || len(words) > 0 {
		t.Error(words, err)
	}
}

func TestARefusalEndsAStream(t *testing.T) {
	service := newService(t, sent(eventFrame("c1", "e1")), refused(401, ErrorTypeAuthentication, CodeAPIKeyRevoked, nil))
	words, err := told(service.client.Stream(nil))
	if !errors.Is(err, CodeAPIKeyRevoked) || fmt.Sprint(words) != "[e1>c1]" {
		t.Error(words, err)
	}
}

func TestOnlyAnOpenStreamWaitsForLong(t *testing.T) {
	busy := refused(503, ErrorTypeInternal, CodeServiceUnavailable, map[string]string{"Retry-After": "300"})
	service := newService(t, sent(eventFrame("c1", "e1")), busy, sent(endFrame))
	if words, err := told(service.client.Stream(nil)); err != nil || fmt.Sprint(words) != "[e1>c1]" {
		t.Error(words, err)
	}
	if last := service.pauses[len(service.pauses)-1]; last < 300*time.Second {
		t.Error(service.pauses)
	}
	service = newService(t, busy)
	if _, err := told(service.client.Stream(nil)); !errors.Is(err, CodeServiceUnavailable) || len(service.pauses) > 0 {
		t.Error(err, service.pauses)
	}
}

func TestAnUnexpectedResponseHasItsOwnType(t *testing.T) {
	service := newService(t, ok("<html>"))
	var unexpected *UnexpectedResponseError
	if _, err := service.client.GetMe(context.Background()); !errors.As(err, &unexpected) || len(service.requests) != 1 {
		t.Error(err, len(service.requests))
	}
	service = newService(t, sent("id: c1\nevent: thesis.created\ndata: [\n\n"))
	if _, err := told(service.client.Stream(nil)); !errors.As(err, &unexpected) || len(service.requests) != 1 {
		t.Error(err, len(service.requests))
	}
}

func TestAStreamThatCannotBeOpenedGivesUp(t *testing.T) {
	service := newService(t, answer{})
	var broken *ConnectionError
	if _, err := told(service.client.Stream(nil)); !errors.As(err, &broken) || len(service.requests) < 6 {
		t.Error(err, len(service.requests))
	}
}

func TestLeavingTheLoopClosesAStream(t *testing.T) {
	service := newService(t, sent(eventFrame("c1", "e1")+eventFrame("c2", "e2")))
	stream := service.client.Stream(nil)
	for range stream.Messages(context.Background()) {
		break
	}
	if stream.Cursor() != "c1" || len(service.requests) != 1 {
		t.Error(stream.Cursor(), len(service.requests))
	}
}

func TestSilenceBreaksAConnection(t *testing.T) {
	opened := 0
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		opened++
		if opened == 2 {
			response.WriteHeader(http.StatusNoContent)
			return
		}
		fmt.Fprint(response, eventFrame("c1", "e1"))
		response.(http.Flusher).Flush()
		<-request.Context().Done()
	}))
	defer server.Close()
	client, err := New(server.URL, "svc_test_key")
	if err != nil {
		t.Fatal(err)
	}
	client.sleep = func(context.Context, time.Duration) error { return nil }
	stream := client.Stream(nil)
	stream.silence = 50 * time.Millisecond
	if words, err := told(stream); err != nil || fmt.Sprint(words) != "[e1>c1]" || opened != 2 {
		t.Error(words, err, opened)
	}
}

func TestTheEndOfAContextEndsAStream(t *testing.T) {
	service := newService(t, sent(eventFrame("c1", "e1")))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	for _, err := range service.client.Stream(nil).Messages(ctx) {
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Error(last)
	}
}

func TestMissedEventsAreThoseOfTheGap(t *testing.T) {
	service := newService(t,
		ok(`{"data":[{"id":"e2","type":"later"}],"has_more":true,"next_cursor":"c"}`),
		ok(`{"data":[{"id":"e1","type":"later"}],"has_more":false,"next_cursor":null}`))
	gap := &StreamGap{Path: "/v1/events?token=RUN&created_after=2026-11-23T20:43:33.440Z"}
	var ids []string
	for event, err := range service.client.MissedEvents(context.Background(), gap) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, event.ID)
	}
	if fmt.Sprint(ids) != "[e2 e1]" || service.requests[1].URL.Query().Get("token") != "RUN" {
		t.Error(ids, service.requests[1].URL)
	}
	for _, err := range service.client.MissedEvents(context.Background(), &StreamGap{Path: "https://a.example/v1/events"}) {
		if err == nil {
			t.Error("it follows a path to another place")
		}
	}
}
