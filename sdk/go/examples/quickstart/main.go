// Posts a test thesis and verifies it: API_URL=https://… API_KEY=svc_test_… go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	tradethesis "trade-thesis.example/go"
)

func main() {
	client, err := tradethesis.New(os.Getenv("API_URL"), os.Getenv("API_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	begin := time.Now().Add(-time.Minute)
	_, err = client.CreateTestThesis(ctx, &tradethesis.CreateTestThesis{
		Handle: "@me", Token: "$RUN", Text: "My first thesis: $RUN goes up.",
	})
	if err != nil {
		log.Fatal(err)
	}
	verdict, err := client.VerifyThesis(ctx, &tradethesis.VerifyThesis{
		Handle: "@me", Token: "$RUN", CreatedAfter: begin,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(verdict.Verified, verdict.Reason)
	for thesis, err := range client.IterateTheses(ctx, &tradethesis.ListThesesParams{Token: "RUN", Since: "1d"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(thesis.CreatedAt, thesis.Profile.Handle, thesis.Text)
	}
}
