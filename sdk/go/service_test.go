package tradethesis

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// answer is a response that a test gives.
type answer struct {
	status  int
	headers map[string]string
	body    string
}

func refused(status int, kind ErrorType, code ErrorCode, headers map[string]string) answer {
	body := fmt.Sprintf(
		`{"error":{"type":%q,"code":%q,"message":"no","request_id":"req_1","param":"id","details":{"limit":3,"new":1}}}`,
		kind, code,
	)
	return answer{status, headers, body}
}

// service gives one answer after the other, and keeps the requests and the pauses of its client.
type service struct {
	client   *Client
	answers  []answer
	requests []*http.Request
	bodies   []string
	pauses   []time.Duration
	lock     sync.Mutex
}

func newService(t *testing.T, answers ...answer) *service {
	t.Helper()
	made := &service{answers: answers}
	server := httptest.NewServer(made)
	// Go repeats a request by itself if a connection breaks that it used before.
	server.Config.SetKeepAlivesEnabled(false)
	t.Cleanup(server.Close)
	client, err := New(server.URL+"/", "svc_test_key\n", WithUserAgent("bot/1.2")) // as a file has a key
	if err != nil {
		t.Fatal(err)
	}
	client.sleep = func(ctx context.Context, pause time.Duration) error {
		made.lock.Lock()
		defer made.lock.Unlock()
		made.pauses = append(made.pauses, pause)
		return ctx.Err()
	}
	made.client = client
	return made
}

func (s *service) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	s.lock.Lock()
	s.requests, s.bodies = append(s.requests, request), append(s.bodies, string(body))
	next := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.lock.Unlock()
	for name, value := range next.headers {
		response.Header().Set(name, value)
	}
	if next.status == 0 {
		panic(http.ErrAbortHandler)
	}
	response.WriteHeader(next.status)
	_, _ = io.WriteString(response, next.body)
	if strings.HasSuffix(next.body, "…") {
		response.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func ok(body string) answer { return answer{status: http.StatusOK, body: body} }
