// Follows events about a token and survives breaks, also of its own: it keeps its place in the file cursor.txt.
//
//	API_URL=https://… API_KEY=svc_test_… go run ./examples/follow
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	tradethesis "trade-thesis.example/go"
)

func main() {
	client, err := tradethesis.New(os.Getenv("API_URL"), os.Getenv("API_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	kept, _ := os.ReadFile("cursor.txt") // none before the first event
	stream := client.Stream(&tradethesis.StreamEventsParams{Token: []string{"RUN"}, FromCursor: string(kept)})
	for message, err := range stream.Messages(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if message.Gap != nil {
			for event, err := range client.MissedEvents(ctx, message.Gap) {
				if err != nil {
					log.Fatal(err)
				}
				handle(event)
			}
		} else {
			handle(*message.Event)
		}
		if err := keep(message.Cursor); err != nil {
			log.Fatal(err)
		}
	}
}

func handle(event tradethesis.Event) {
	switch data := event.Data.(type) {
	case *tradethesis.ThesisCreatedData:
		fmt.Println(event.ID, data.Profile.Handle, data.Text)
	default:
		fmt.Println(event.ID, event.Type)
	}
}

// keep writes a second file first, so the first one is always whole.
func keep(cursor string) error {
	if err := os.WriteFile("cursor.new", []byte(cursor), 0o600); err != nil {
		return err
	}
	return os.Rename("cursor.new", "cursor.txt")
}
