package tradethesis

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	secretPrefix     = "whsec_"
	publicKeyPrefix  = "whpk_"
	webhookTolerance = 300 * time.Second
)

// These are the reasons for which [WebhookVerifier.Verify] refuses a delivery. Compare them with [errors.Is], and respond
// with 400 to each.
var (
	// ErrWebhookHeaders says that the headers of the signature are missing or have another form.
	ErrWebhookHeaders = errors.New("trade thesis: the headers of the signature are missing or have another form")
	// ErrWebhookTime says that the delivery was signed more than 300 seconds before or after the time of your clock.
	ErrWebhookTime = errors.New("trade thesis: the delivery was signed more than 300 seconds before or after now")
	// ErrWebhookSignature says that no signature is right: the body was changed, or somebody else sent it.
	ErrWebhookSignature = errors.New("trade thesis: no signature of the delivery is right")
)

// WebhookVerifier verifies deliveries of webhooks. It is safe for concurrent use.
type WebhookVerifier struct {
	secrets    []string
	publicKeys []ed25519.PublicKey
	now        func() time.Time
}

// NewWebhookVerifier takes the secrets ("whsec_…") or the public keys ("whpk_…") of a webhook. Give the old and the new
// secret during a rotation, or the secrets of several webhooks that share an endpoint.
func NewWebhookVerifier(keys ...string) (*WebhookVerifier, error) {
	verifier := &WebhookVerifier{now: time.Now}
	for _, key := range keys {
		text, isPublic := strings.CutPrefix(key, publicKeyPrefix)
		switch {
		case isPublic:
			public, err := base64.StdEncoding.DecodeString(text)
			if err != nil || len(public) != ed25519.PublicKeySize {
				return nil, errors.New("trade thesis: the public key of the webhook is not complete")
			}
			verifier.publicKeys = append(verifier.publicKeys, public)
		case strings.HasPrefix(key, secretPrefix) && len(key) > len(secretPrefix):
			verifier.secrets = append(verifier.secrets, key)
		default:
			return nil, errors.New("trade thesis: a secret of a webhook begins with whsec_, a public key with whpk_")
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("trade thesis: no secret or public key of a webhook is given")
	}
	return verifier, nil
}

// Verify checks the signature of a delivery and returns its event. The body must be the bytes as they arrived. It checks
// Service-Signature, or the headers of Standard Webhooks where there is no such header or only a public key is given.
//
// The same event may come twice: skip ids that you have handled.
func (v *WebhookVerifier) Verify(header http.Header, body []byte) (*Event, error) {
	verify := v.verifyStandard
	if header.Get("Service-Signature") != "" && len(v.secrets) > 0 {
		verify = v.verifyService
	}
	if err := verify(header, body); err != nil {
		return nil, err
	}
	var event Event
	if err := json.Unmarshal(body, &event); err != nil {
		return nil, fmt.Errorf("trade thesis: the delivery is no event: %w", err)
	}
	return &event, nil
}

func (v *WebhookVerifier) verifyService(header http.Header, body []byte) error {
	var at string
	var given [][]byte
	for _, part := range strings.Split(header.Get("Service-Signature"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			at = value
		case "v1":
			if signature, err := hex.DecodeString(value); err == nil {
				given = append(given, signature)
			}
		}
	}
	if err := v.checkTime(at); err != nil {
		return err
	}
	for _, secret := range v.secrets {
		expected := sign([]byte(secret), at+".", body)
		for _, signature := range given {
			if hmac.Equal(signature, expected) {
				return nil
			}
		}
	}
	return ErrWebhookSignature
}

func (v *WebhookVerifier) verifyStandard(header http.Header, body []byte) error {
	id, at := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	if id == "" || header.Get("Webhook-Signature") == "" {
		return ErrWebhookHeaders
	}
	if err := v.checkTime(at); err != nil {
		return err
	}
	prefix := id + "." + at + "."
	for _, part := range strings.Split(header.Get("Webhook-Signature"), " ") {
		version, text, _ := strings.Cut(part, ",")
		signature, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			continue
		}
		if version == "v1" && v.hasSecretFor(signature, prefix, body) {
			return nil
		}
		if version == "v1a" && v.hasPublicKeyFor(signature, prefix, body) {
			return nil
		}
	}
	return ErrWebhookSignature
}

func (v *WebhookVerifier) hasSecretFor(signature []byte, prefix string, body []byte) bool {
	for _, secret := range v.secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
		if err == nil && hmac.Equal(signature, sign(key, prefix, body)) {
			return true
		}
	}
	return false
}

func (v *WebhookVerifier) hasPublicKeyFor(signature []byte, prefix string, body []byte) bool {
	message := append([]byte(prefix), body...)
	for _, key := range v.publicKeys {
		if ed25519.Verify(key, message, signature) {
			return true
		}
	}
	return false
}

// checkTime keeps anyone from sending an old delivery again.
func (v *WebhookVerifier) checkTime(text string) error {
	seconds, err := strconv.ParseUint(text, 10, 62)
	if err != nil {
		return ErrWebhookHeaders
	}
	// Compared as numbers of seconds: a time far away has no duration.
	difference := v.now().Unix() - int64(seconds)
	if max(difference, -difference) > int64(webhookTolerance/time.Second) {
		return ErrWebhookTime
	}
	return nil
}

func sign(key []byte, prefix string, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(prefix))
	mac.Write(body)
	return mac.Sum(nil)
}
