// Judges the deliveries of a file by Go's library of Standard Webhooks, and `v1a` by crypto/ed25519; see standard.py.
package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

type delivery struct {
	Headers       map[string]string
	Body, Changed string
	Secrets       []string
	Wrong         []string
}

func verifies(secret string, headers http.Header, body string) bool {
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		log.Fatal(err)
	}
	return webhook.Verify([]byte(body), headers) == nil
}

func keyVerifies(key ed25519.PublicKey, headers http.Header, body string) bool {
	for part := range strings.SplitSeq(headers.Get("webhook-signature"), " ") {
		if text, isOurs := strings.CutPrefix(part, "v1a,"); isOurs {
			signature, err := base64.StdEncoding.DecodeString(text)
			signed := headers.Get("webhook-id") + "." + headers.Get("webhook-timestamp") + "." + body
			return err == nil && ed25519.Verify(key, []byte(signed), signature)
		}
	}
	return false
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var told struct {
		PublicKey  string `json:"public_key"`
		Deliveries []delivery
	}
	if err := json.Unmarshal(text, &told); err != nil {
		log.Fatal(err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(told.PublicKey, "whpk_"))
	if err != nil || len(told.Deliveries) < 1000 {
		log.Fatal(len(told.Deliveries), err)
	}
	for _, one := range told.Deliveries {
		headers := http.Header{}
		for name, value := range one.Headers {
			headers.Set(name, value)
		}
		for _, secret := range one.Secrets {
			if !verifies(secret, headers, one.Body) || verifies(secret, headers, one.Changed) {
				log.Fatal(one.Headers)
			}
		}
		for _, secret := range one.Wrong {
			if verifies(secret, headers, one.Body) {
				log.Fatal("a wrong secret verifies ", one.Headers)
			}
		}
		if !keyVerifies(key, headers, one.Body) || keyVerifies(key, headers, one.Changed) {
			log.Fatal("v1a ", one.Headers)
		}
	}
}
