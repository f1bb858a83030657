package tradethesis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestARequestCarriesTheKeyAndTheUserAgent(t *testing.T) {
	service := newService(t, ok(`{"object":"thesis","id":"th_1","text":"moon","created_at":"2026-01-31T12:00:00.123Z"}`))
	thesis, err := service.client.GetThesis(context.Background(), "th/1 ?")
	if err != nil || thesis.Text != "moon" || thesis.CreatedAt.UnixMilli()%1000 != 123 {
		t.Fatal(thesis, err)
	}
	request := service.requests[0]
	if request.URL.EscapedPath() != "/v1/theses/th%2F1%20%3F" {
		t.Error(request.URL.EscapedPath())
	}
	if request.Header.Get("Authorization") != "Bearer svc_test_key" {
		t.Error(request.Header)
	}
	if agent := request.Header.Get("User-Agent"); agent != "trade-thesis-go/"+Version+" bot/1.2" {
		t.Error(agent)
	}
	if text := fmt.Sprintf("%v %+v %#v", service.client, service.client, service.client); strings.Contains(text, "svc_test_key") {
		t.Error(text)
	}
}

func TestAnAddressOrAKeyOfAnotherFormIsRefused(t *testing.T) {
	for _, address := range []string{
		"", "api.example.com", "ftp://api.example.com", "https://", "https://a.example/?b", "https://a.example/#b", "https://a.example/?",
		"https://a.example/#", ":",
	} {
		if _, err := New(address, "svc_test_key"); err == nil {
			t.Error(address)
		}
	}
	for _, key := range []string{"", "\n", "svc test"} {
		if _, err := New("https://api.example.com", key); err == nil {
			t.Errorf("%q", key)
		}
	}
}

func TestAClientWithoutAKeySendsNone(t *testing.T) {
	service := newService(t, ok(`{"data":[{"key":"log+1+a"}]}`), refused(401, ErrorTypeAuthentication, CodeMissingAPIKey, nil))
	client, err := NewWithoutKey(service.client.baseURL, WithUserAgent("bot/1.2"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := client.ListLogKeys(context.Background())
	if err != nil || keys.Data[0].Key != "log+1+a" {
		t.Fatal(keys, err)
	}
	if _, err := client.GetMe(context.Background()); !errors.Is(err, CodeMissingAPIKey) {
		t.Error(err)
	}
	for _, request := range service.requests {
		if _, isSent := request.Header["Authorization"]; isSent || !strings.HasSuffix(request.UserAgent(), " bot/1.2") {
			t.Error(request.Header)
		}
	}
	if _, err := NewWithoutKey("api.example.com"); err == nil {
		t.Error("it takes any address")
	}
}

func TestAnIDThatNamesNothingIsNotSent(t *testing.T) {
	service := newService(t, ok("{}"))
	for _, id := range []string{"", ".", ".."} {
		if _, err := service.client.GetThesis(context.Background(), id); err == nil {
			t.Errorf("%q", id)
		}
	}
	if len(service.requests) > 0 {
		t.Error(service.requests)
	}
}

func TestARefusalHasItsCodeAndRequestID(t *testing.T) {
	service := newService(t, refused(404, ErrorTypeNotFound, CodeThesisNotFound, nil))
	_, err := service.client.GetThesis(context.Background(), "th_1")
	var refusal *APIError
	if !errors.As(err, &refusal) || refusal.RequestID != "req_1" || refusal.Status != 404 || refusal.Param != "id" {
		t.Fatal(err)
	}
	if !errors.Is(err, CodeThesisNotFound) || !errors.Is(err, ErrorTypeNotFound) || errors.Is(err, CodeTokenNotFound) {
		t.Error(err)
	}
	if refusal.Details == nil || refusal.Details.Limit != 3 || !strings.Contains(err.Error(), "req_1") {
		t.Error(refusal)
	}
	if len(service.requests) != 1 {
		t.Error("it was repeated")
	}
}

func TestAResponseOfAProxyIsAnErrorWithoutACode(t *testing.T) {
	service := newService(t, answer{400, map[string]string{"X-Service-Request-Id": "req_2"}, "<html>"})
	_, err := service.client.GetMe(context.Background())
	var refusal *APIError
	if !errors.As(err, &refusal) || refusal.Code != "" || refusal.RequestID != "req_2" || refusal.Status != 400 {
		t.Fatal(err)
	}
}

func TestATransientRefusalIsRepeatedAfterItsTime(t *testing.T) {
	after := map[string]string{"Retry-After": "7"}
	service := newService(t,
		refused(429, ErrorTypeRateLimit, CodeRateLimited, after),
		refused(503, ErrorTypeInternal, CodeServiceUnavailable, map[string]string{"Retry-After": "1"}),
		refused(500, ErrorTypeInternal, CodeInternalError, nil),
		answer{502, nil, "<html>"},
		answer{},
		ok("{}"),
	)
	if _, err := service.client.GetMe(context.Background()); err != nil {
		t.Fatal(err)
	}
	least := []time.Duration{7250, 1500, 1000, 2000, 4000}
	if len(service.pauses) != len(least) {
		t.Fatal(service.pauses)
	}
	for place, pause := range service.pauses {
		growing := time.Duration(250<<place) * time.Millisecond
		if pause < least[place]*time.Millisecond || pause > least[place]*time.Millisecond+growing {
			t.Error(place, pause)
		}
	}
}

func TestARetryAfterOfManyYearsIsNoShortOne(t *testing.T) {
	for _, seconds := range []string{"9223372037", "9999999999999999999"} {
		service := newService(t, refused(503, ErrorTypeInternal, CodeServiceUnavailable, map[string]string{"Retry-After": seconds}))
		if _, err := service.client.GetMe(context.Background()); err == nil || len(service.requests) != 1 {
			t.Error(seconds, err, len(service.requests))
		}
	}
}

func TestTriesEnd(t *testing.T) {
	service := newService(t, refused(503, ErrorTypeInternal, CodeServiceUnavailable, nil))
	if _, err := service.client.GetMe(context.Background()); !errors.Is(err, CodeServiceUnavailable) {
		t.Fatal(err)
	}
	if len(service.requests) != 6 {
		t.Error(len(service.requests))
	}
	WithMaxRetries(0)(service.client)
	if _, err := service.client.GetMe(context.Background()); err == nil || len(service.requests) != 7 {
		t.Error(err, len(service.requests))
	}
	_, err := service.client.GetMe(context.Background(), WithCallMaxRetries(2))
	if err == nil || len(service.requests) != 10 {
		t.Error(err, len(service.requests))
	}
}

func TestWhatNoRepeatMendsIsNotRepeated(t *testing.T) {
	for _, one := range []answer{
		refused(429, ErrorTypeRateLimit, CodeQuotaExceeded, map[string]string{"Retry-After": "60"}),
		refused(429, ErrorTypeRateLimit, CodeRateLimited, map[string]string{"Retry-After": "3600"}),
		refused(409, ErrorTypeConflict, CodeAmbiguousToken, nil),
		refused(422, ErrorTypeValidation, CodeValidationFailed, nil),
	} {
		service := newService(t, one)
		if _, err := service.client.GetMe(context.Background()); err == nil || len(service.requests) != 1 {
			t.Error(err, len(service.requests))
		}
	}
}

func TestATryWithoutAResponseEndsAtItsTimeout(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		select {
		case <-release:
		case <-request.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	client, err := New(server.URL, "svc_test_key", WithMaxRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []func() error{
		func() error {
			_, err := client.GetMe(context.Background(), WithCallTimeout(time.Millisecond))
			return err
		},
		func() error {
			_, err := client.GetArchiveFile(context.Background(), "2026-01-31", "theses.parquet", WithCallTimeout(time.Millisecond))
			return err
		},
	} {
		var broken *ConnectionError
		if err := call(); !errors.As(err, &broken) || !broken.Timeout() {
			t.Error(err)
		}
	}
}

func TestTheEndOfAContextEndsTheTries(t *testing.T) {
	service := newService(t, refused(503, ErrorTypeInternal, CodeServiceUnavailable, map[string]string{"Retry-After": "60"}))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := service.client.GetMe(ctx); err == nil || len(service.requests) != 1 || len(service.pauses) > 0 {
		t.Error("it waits for longer than the context lives")
	}
	cancel()
	if _, err := service.client.GetMe(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAChangeHasOneIdempotencyKeyInAllItsTries(t *testing.T) {
	service := newService(t,
		refused(409, ErrorTypeConflict, CodeIdempotencyInProgress, map[string]string{"Retry-After": "1"}), answer{}, ok("{}"))
	body := &CreateWebhook{URL: "https://a.example", Events: []EventType{EventTypeThesisCreated}}
	for range 2 {
		if _, err := service.client.CreateWebhook(context.Background(), body); err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	for _, request := range service.requests {
		keys = append(keys, request.Header.Get("Idempotency-Key"))
	}
	if len(keys) != 4 || len(keys[0]) != 36 || keys[0] != keys[1] || keys[1] != keys[2] || keys[2] == keys[3] {
		t.Error(keys)
	}
	if want := `{"url":"https://a.example","events":["thesis.created"]}`; service.bodies[0] != want || service.bodies[2] != want {
		t.Error(service.bodies)
	}
	if _, err := service.client.CreateWebhook(context.Background(), body, WithIdempotencyKey("mine")); err != nil {
		t.Fatal(err)
	}
	if key := service.requests[4].Header.Get("Idempotency-Key"); key != "mine" {
		t.Error(key)
	}
	if _, err := service.client.GetMe(context.Background(), WithIdempotencyKey("mine")); err != nil {
		t.Fatal(err)
	}
	if key := service.requests[5].Header.Get("Idempotency-Key"); key != "" {
		t.Error("a read has a key")
	}
}

func TestParametersAreWrittenAsTheServiceReadsThem(t *testing.T) {
	service := newService(t, ok(`{"data":[],"has_more":false,"next_cursor":null}`))
	after := time.Date(2026, 1, 31, 13, 0, 0, 5_999_999, time.FixedZone("", 3600))
	_, err := service.client.ListEvents(context.Background(), &ListEventsParams{
		Types: []EventType{EventTypeThesisCreated, EventTypeTokenActivity}, Token: []string{"$RUN", "SEEK"},
		Text: []string{"moon", "a, b"}, CreatedAfter: after, Limit: 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	query := service.requests[0].URL.Query()
	want := map[string]string{
		"types": "[thesis.created,token.activity]", "token": "[$RUN,SEEK]", "text": "[moon a, b]",
		"created_after": "[2026-01-31T12:00:00.005Z]", "limit": "[5]",
	}
	if len(query) != len(want) {
		t.Error(query)
	}
	for name, values := range want {
		if fmt.Sprint(query[name]) != values {
			t.Error(name, query[name])
		}
	}
	if _, err := service.client.Search(context.Background(), "moon", nil); err != nil {
		t.Fatal(err)
	}
	if query := service.requests[1].URL.RawQuery; query != "q=moon" {
		t.Error(query)
	}
}

func TestAFieldIsLeftAloneClearedOrSet(t *testing.T) {
	for want, body := range map[string]UpdateWebhook{
		`{}`:                   {},
		`{"description":null}`: {Description: Null[string]()},
		`{"description":"a"}`:  {Description: Value("a")},
		`{"filters":{},"headers":{"A":null}}`: {
			Filters: &WebhookFilters{}, Headers: map[string]*string{"A": nil},
		},
	} {
		if written, err := json.Marshal(body); err != nil || string(written) != want {
			t.Error(string(written), want, err)
		}
	}
}

func TestAnIteratorReadsAllPages(t *testing.T) {
	service := newService(t,
		ok(`{"data":[{"id":"th_1"},{"id":"th_2"}],"has_more":true,"next_cursor":"one"}`),
		ok(`{"data":[],"has_more":true,"next_cursor":"two"}`),
		ok(`{"data":[{"id":"th_3"}],"has_more":false,"next_cursor":null}`),
		refused(400, ErrorTypeInvalidRequest, CodeInvalidCursor, nil),
	)
	theses := service.client.IterateTheses(context.Background(), &ListThesesParams{Token: "RUN"})
	var ids []string
	for thesis, err := range theses {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, thesis.ID)
	}
	if fmt.Sprint(ids) != "[th_1 th_2 th_3]" {
		t.Error(ids)
	}
	var queries []string
	for _, request := range service.requests {
		queries = append(queries, request.URL.RawQuery)
	}
	want := "[limit=100&token=RUN cursor=one&limit=100&token=RUN cursor=two&limit=100&token=RUN]"
	if fmt.Sprint(queries) != want {
		t.Error(queries)
	}
	for _, err := range theses {
		if !errors.Is(err, CodeInvalidCursor) {
			t.Error(err)
		}
	}
	if len(service.requests) != 4 {
		t.Error("the second loop did not begin at the first page, or did not end at the error")
	}
}

func TestAnEventHasTheDataOfItsType(t *testing.T) {
	const common = `"object":"event","id":"evt_1","created_at":"2026-01-31T12:00:00.000Z","livemode":false`
	read := func(text string) Event {
		var event Event
		if err := json.Unmarshal([]byte(text), &event); err != nil {
			t.Fatal(err)
		}
		return event
	}
	full := read(`{` + common + `,"type":"thesis.created","source":"sandbox","data":{"thesis_id":"th_1","text":"moon"}}`)
	if data, isThesis := full.Data.(*ThesisCreatedData); !isThesis || data.Text != "moon" || full.Source != "sandbox" {
		t.Error(full)
	}
	thin := read(`{` + common + `,"type":"thesis.created"}`)
	if thin.Data != nil || thin.ID != "evt_1" {
		t.Error(thin)
	}
	later := read(`{` + common + `,"type":"thesis.pinned","data":{"a":[1]}}`)
	data, isUnknown := later.Data.(UnknownEventData)
	written, err := json.Marshal(later)
	if !isUnknown || string(data) != `{"a":[1]}` || err != nil || !strings.Contains(string(written), `"data":{"a":[1]}`) {
		t.Error(later, string(written), err)
	}
}
