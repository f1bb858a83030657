// go get github.com/standard-webhooks/standard-webhooks/libraries
package hooks

import (
	"io"
	"log"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func Handle(response http.ResponseWriter, request *http.Request) {
	webhook, err := standardwebhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		log.Fatal(err)
	}
	body, err := io.ReadAll(request.Body)
	// The check fails if no signature is right, or the delivery is old.
	if err != nil || webhook.Verify(body, request.Header) != nil {
		response.WriteHeader(http.StatusBadRequest)
		return
	}
	log.Printf("%s", body)
}
