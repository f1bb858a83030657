package tradethesis

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

const (
	oldSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	newSecret = "whsec_bmV3IHNlY3JldCBvZiAyNCBieXRl"
	signedAt  = 1_795_000_000
)

var delivered = []byte(`{"object":"event","id":"evt_1","type":"thesis.created","livemode":false}`)

func serviceHeader(at int64, secrets ...string) http.Header {
	text := fmt.Sprintf("t=%d", at)
	for _, secret := range secrets {
		text += ",v1=" + hex.EncodeToString(sign([]byte(secret), fmt.Sprintf("%d.", at), delivered))
	}
	return http.Header{"Service-Signature": {text}}
}

func standardHeader(signatures string) http.Header {
	return http.Header{
		"Webhook-Id": {"evt_1"}, "Webhook-Timestamp": {fmt.Sprint(signedAt)}, "Webhook-Signature": {signatures},
	}
}

func verifierAt(t *testing.T, at int64, keys ...string) *WebhookVerifier {
	t.Helper()
	verifier, err := NewWebhookVerifier(keys...)
	if err != nil {
		t.Fatal(err)
	}
	verifier.now = func() time.Time { return time.Unix(at, 0) }
	return verifier
}

func TestADeliveryIsVerifiedThroughARotation(t *testing.T) {
	both := serviceHeader(signedAt, newSecret, oldSecret)
	for _, keys := range [][]string{{oldSecret}, {newSecret}, {oldSecret, newSecret}} {
		event, err := verifierAt(t, signedAt, keys...).Verify(both, delivered)
		if err != nil || event.ID != "evt_1" {
			t.Error(keys, err)
		}
	}
	if _, err := verifierAt(t, signedAt, oldSecret).Verify(serviceHeader(signedAt, newSecret), delivered); !errors.Is(err, ErrWebhookSignature) {
		t.Error(err)
	}
}

func TestAChangedDeliveryIsRefused(t *testing.T) {
	verifier := verifierAt(t, signedAt, oldSecret)
	changed := append([]byte(" "), delivered...)
	if _, err := verifier.Verify(serviceHeader(signedAt, oldSecret), changed); !errors.Is(err, ErrWebhookSignature) {
		t.Error(err)
	}
	for _, header := range []http.Header{
		{}, {"Service-Signature": {"v1=00"}}, {"Service-Signature": {"t=x,v1=00"}}, {"Service-Signature": {"t=-1,v1=00"}},
	} {
		if _, err := verifier.Verify(header, delivered); !errors.Is(err, ErrWebhookHeaders) {
			t.Error(header, err)
		}
	}
	for _, header := range []string{fmt.Sprintf("t=%d", signedAt), fmt.Sprintf("t=%d,v1=", signedAt), fmt.Sprintf("t=%d,v1=zz", signedAt)} {
		if _, err := verifier.Verify(http.Header{"Service-Signature": {header}}, delivered); !errors.Is(err, ErrWebhookSignature) {
			t.Error(header, err)
		}
	}
}

func TestADeliveryIsValidForFiveMinutes(t *testing.T) {
	for difference, want := range map[int64]error{-301: ErrWebhookTime, -300: nil, 300: nil, 301: ErrWebhookTime} {
		_, err := verifierAt(t, signedAt+difference, oldSecret).Verify(serviceHeader(signedAt, oldSecret), delivered)
		if !errors.Is(err, want) {
			t.Error(difference, err)
		}
	}
}

func TestStandardWebhooksAreVerified(t *testing.T) {
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public := "whpk_" + base64.StdEncoding.EncodeToString(private.Public().(ed25519.PublicKey))
	prefix := fmt.Sprintf("evt_1.%d.", signedAt)
	key, err := base64.StdEncoding.DecodeString(oldSecret[len("whsec_"):])
	if err != nil {
		t.Fatal(err)
	}
	bySecret := "v1," + base64.StdEncoding.EncodeToString(sign(key, prefix, delivered))
	byKey := "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(private, append([]byte(prefix), delivered...)))
	for _, header := range []http.Header{standardHeader(bySecret + " " + byKey), standardHeader("v2,x " + byKey + " " + bySecret)} {
		for _, key := range []string{oldSecret, public} {
			if _, err := verifierAt(t, signedAt, key).Verify(header, delivered); err != nil {
				t.Error(header, key, err)
			}
			if _, err := verifierAt(t, signedAt+301, key).Verify(header, delivered); !errors.Is(err, ErrWebhookTime) {
				t.Error(err)
			}
		}
		if _, err := verifierAt(t, signedAt, newSecret).Verify(header, delivered); !errors.Is(err, ErrWebhookSignature) {
			t.Error(err)
		}
	}
	// A public key alone never believes Service-Signature, which it cannot check.
	if _, err := verifierAt(t, signedAt, public).Verify(serviceHeader(signedAt, oldSecret), delivered); !errors.Is(err, ErrWebhookHeaders) {
		t.Error(err)
	}
	// A wrong Service-Signature is not made up for.
	header := standardHeader(bySecret)
	header.Set("Service-Signature", fmt.Sprintf("t=%d,v1=00", signedAt))
	if _, err := verifierAt(t, signedAt, oldSecret).Verify(header, delivered); !errors.Is(err, ErrWebhookSignature) {
		t.Error(err)
	}
}

func TestAKeyOfAnotherFormIsRefused(t *testing.T) {
	for _, keys := range [][]string{{}, {""}, {"whsec_"}, {"secret"}, {"whpk_AAAA"}, {oldSecret, "whpk_"}} {
		if _, err := NewWebhookVerifier(keys...); err == nil {
			t.Error(keys)
		}
	}
}
