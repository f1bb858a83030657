// The scenarios of `live.py`, with the SDK for Go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	tradethesis "trade-thesis.example/go"
)

var (
	ctx     = context.Background()
	address = os.Getenv("API_URL")
	key     = os.Getenv("API_KEY")
	token   = os.Getenv("TOKEN")
	client  = connect(address, key)
)

func connect(address, key string, options ...tradethesis.Option) *tradethesis.Client {
	return must(tradethesis.New(address, key, options...))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func check(isSo bool, what ...any) {
	if !isSo {
		log.Fatal(what...)
	}
}

// quick walks the quick start.
func quick() {
	me := must(client.GetMe(ctx))
	check(me.Environment == tradethesis.EnvironmentTest, me)
	first := must(client.ListTheses(ctx, &tradethesis.ListThesesParams{Token: "RUN", Limit: 2}))
	second := must(client.ListTheses(ctx, &tradethesis.ListThesesParams{Token: "RUN", Limit: 2, Cursor: *first.NextCursor}))
	ids := map[string]bool{}
	for _, thesis := range append(first.Data, second.Data...) {
		ids[thesis.ID] = true
	}
	check(len(ids) == 4, ids)
	thesis := must(client.GetThesis(ctx, first.Data[0].ID))
	check(must(client.GetProfile(ctx, thesis.Profile.Handle)).ID == thesis.Profile.ID, thesis)
	check(must(client.GetToken(ctx, "$RUN", nil)).ID == thesis.Token.ID, thesis)
	found := must(client.Search(ctx, "sandbox", &tradethesis.SearchParams{Types: []string{"profiles", "tokens"}}))
	check(len(found.Profiles) > 0, found)
	before := time.Now().Add(-time.Minute)
	own := &tradethesis.CreateTestThesis{Handle: "sdk", Token: token, Text: "My first thesis."}
	made := must(client.CreateTestThesis(ctx, own, tradethesis.WithIdempotencyKey(token)))
	again := must(client.CreateTestThesis(ctx, own, tradethesis.WithIdempotencyKey(token)))
	check(again.Thesis.ID == made.Thesis.ID, again)
	verdict := must(client.VerifyThesis(ctx, &tradethesis.VerifyThesis{
		Handle: "sdk", Token: token, CreatedAfter: before, Contains: "first",
	}))
	check(verdict.Verified && *verdict.ThesisID == made.Thesis.ID, verdict)
	event := must(client.GetEvent(ctx, made.Event.ID))
	check(event.Data.(*tradethesis.ThesisCreatedData).ThesisID == made.Thesis.ID, event)
	webhook := must(client.CreateWebhook(ctx, &tradethesis.CreateWebhook{
		URL: "http://127.0.0.1:19996/", Events: []tradethesis.EventType{tradethesis.EventTypeThesisCreated},
		Description: tradethesis.Value("for tests"),
	}))
	changed := must(client.UpdateWebhook(ctx, webhook.ID, &tradethesis.UpdateWebhook{
		Description: tradethesis.Null[string](), Status: "disabled",
	}))
	check(changed.Description == nil && changed.Status == tradethesis.WebhookStatusDisabled, changed)
	check(must(client.DeleteWebhook(ctx, webhook.ID)).Deleted)
	checkReceipt()
	checkReplay(made.Thesis.ID, before)
}

// checkReceipt verifies the receipt of a thesis of the sandbox.
func checkReceipt() {
	oldest := must(client.ListTheses(ctx, &tradethesis.ListThesesParams{
		Sort: tradethesis.ThesisSortCreatedAtAsc, Limit: 1, Chain: "sandbox",
	}))
	receipt := must(json.Marshal(must(client.GetReceipt(ctx, oldest.Data[0].ID))))
	var trusted []string
	for _, one := range must(client.ListLogKeys(ctx)).Data {
		trusted = append(trusted, one.Key)
	}
	verified := must(tradethesis.VerifyReceipt(receipt, trusted, nil))
	check(verified.IsTrusted && verified.Evidence.ThesisID == oldest.Data[0].ID, verified)
}

// checkReplay finds a thesis in a stream that begins before it.
func checkReplay(id string, from time.Time) {
	stream := client.Stream(&tradethesis.StreamEventsParams{
		Token: []string{token}, Types: []tradethesis.EventType{tradethesis.EventTypeThesisCreated}, From: from,
	})
	for message, err := range stream.Messages(ctx) {
		check(err == nil, err)
		data, isThesis := message.Event.Data.(*tradethesis.ThesisCreatedData)
		check(isThesis && data.ThesisID == id && stream.Cursor() == message.Cursor, message)
		return
	}
	log.Fatal("the stream ended")
}

// raised prints the error of a call.
func raised[T any](value T, err error) {
	var refused *tradethesis.APIError
	check(errors.As(err, &refused), value, err)
	check(errors.Is(err, refused.Type) && errors.Is(err, refused.Code), err)
	fmt.Println(refused.Type, refused.Code, refused.RequestID)
}

// provoke makes an error of each class.
func provoke() {
	own := must(client.CreateTestThesis(ctx, &tradethesis.CreateTestThesis{Handle: "sdk", Token: token, Text: "An own thesis."}))
	stub := connect(os.Getenv("STUB_URL"), key, tradethesis.WithMaxRetries(0))
	raised(connect(address, "svc_test_wrong").GetMe(ctx))
	raised(client.ListTheses(ctx, &tradethesis.ListThesesParams{CreatedAfter: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)}))
	raised(client.GetToken(ctx, "NOSUCHTOKEN", nil))
	raised(client.GetReceipt(ctx, own.Thesis.ID))
	raised(client.ListTheses(ctx, &tradethesis.ListThesesParams{Limit: -1}))
	raised(client.ListTheses(ctx, &tradethesis.ListThesesParams{Cursor: "wrong"}))
	raised(stub.GetMe(ctx))
	raised(stub.GetToken(ctx, "RUN", nil))
}

// keyless reads what everybody may read, and nothing else, without a key.
func keyless() {
	reader := must(tradethesis.NewWithoutKey(address))
	for _, one := range must(reader.ListLogKeys(ctx)).Data {
		fmt.Println(one.Key)
	}
	raised(reader.GetMe(ctx))
}

// pages prints all rows of a token.
func pages() {
	for thesis, err := range client.IterateTheses(ctx, &tradethesis.ListThesesParams{Token: token, Limit: 100}) {
		check(err == nil, err)
		fmt.Println(thesis.ID)
	}
}

// stream prints the events of a token.
func stream() {
	stream := client.Stream(&tradethesis.StreamEventsParams{
		Token: []string{token}, Types: []tradethesis.EventType{tradethesis.EventTypeThesisCreated},
		FromCursor: os.Getenv("CURSOR"),
	})
	for message, err := range stream.Messages(ctx) {
		check(err == nil, err)
		check(message.Event != nil, message)
		fmt.Println(message.Event.ID)
	}
}

// webhook verifies deliveries.
func webhook() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var given struct {
			Headers map[string]string
			Body    []byte
			Keys    []string
		}
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			log.Fatal(err)
		}
		header := http.Header{}
		for name, value := range given.Headers {
			header.Set(name, value)
		}
		event, err := must(tradethesis.NewWebhookVerifier(given.Keys...)).Verify(header, given.Body)
		if err != nil {
			fmt.Println("refused")
		} else {
			fmt.Println(event.ID)
		}
	}
}

// limited calls until it is limited.
func limited() {
	body := &tradethesis.VerifyThesis{Handle: "sdk", Token: token, CreatedAfter: time.Now().Add(-time.Hour)}
	impatient := connect(address, key, tradethesis.WithMaxRetries(0))
	for {
		_, err := impatient.VerifyThesis(ctx, body)
		var refused *tradethesis.APIError
		if errors.As(err, &refused) {
			check(errors.Is(err, tradethesis.CodeRateLimited), err)
			fmt.Println(refused.RetryAfter.Seconds())
			break
		}
		check(err == nil, err)
	}
	fmt.Println(must(connect(os.Getenv("STUB_URL"), key).GetCheckpoint(ctx, "live")))
	if os.Getenv("WAITS") != "" {
		must(client.VerifyThesis(ctx, body))
	}
}

func main() {
	scenarios := map[string]func(){
		"quick": quick, "errors": provoke, "keyless": keyless, "pages": pages, "stream": stream, "webhook": webhook,
		"limited": limited,
	}
	scenarios[os.Args[1]]()
}
