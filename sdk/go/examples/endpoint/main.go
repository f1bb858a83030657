// Receives the events of a webhook: WEBHOOK_SECRET=whsec_… PORT=8000 go run ./examples/endpoint
package main

import (
	"cmp"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	tradethesis "trade-thesis.example/go"
)

func main() {
	verifier, err := tradethesis.NewWebhookVerifier(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("POST /", func(response http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, 1<<20))
		if err != nil {
			http.Error(response, "the body did not arrive", http.StatusBadRequest)
			return
		}
		event, err := verifier.Verify(request.Header, body)
		if err != nil {
			log.Print("refused: ", err)
			http.Error(response, "not signed", http.StatusBadRequest)
			return
		}
		// In a real program: store the event before you respond, and skip ids that you know.
		fmt.Println(event.Type, event.ID)
		response.WriteHeader(http.StatusNoContent)
	})
	log.Fatal(http.ListenAndServe(":"+cmp.Or(os.Getenv("PORT"), "8000"), nil))
}
