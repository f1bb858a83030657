package tradethesis

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The test vectors are in the source of the service, not in the published module.
const vectorsFolder = "../../docs/receipts"

func readVectorFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(vectorsFolder, name))
	if errors.Is(err, os.ErrNotExist) && os.Getenv("CI") != "true" {
		t.Skip("the test vectors are not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func readVectors(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal(readVectorFile(t, "vectors.json"), into); err != nil {
		t.Fatal(err)
	}
}

func TestReceiptsAreJudgedAsTheVectorsSay(t *testing.T) {
	var vectors struct {
		Documents []struct {
			File               string
			Trusted, Witnesses []string
			Wrong              *string
		}
	}
	readVectors(t, &vectors)
	if len(vectors.Documents) < 70 {
		t.Fatal(len(vectors.Documents))
	}
	for _, row := range vectors.Documents {
		content, err := os.ReadFile(filepath.Join(vectorsFolder, row.File))
		if err != nil {
			t.Fatal(err)
		}
		verified, err := VerifyReceipt(content, row.Trusted, row.Witnesses)
		if row.Wrong == nil {
			if err != nil {
				t.Errorf("%s: %v", row.File, err)
			} else if verified.IsTrusted != (len(row.Trusted) > 0) || len(verified.Witnesses) != len(row.Witnesses) {
				t.Errorf("%s: %+v", row.File, verified)
			} else if (verified.Evidence != nil) == (verified.File != nil || verified.Verdict != nil) {
				t.Errorf("%s: %+v", row.File, verified)
			}
			continue
		}
		var wrong *ReceiptError
		if !errors.As(err, &wrong) || wrong.Fault != *row.Wrong {
			t.Errorf("%s: %v, not %s", row.File, err, *row.Wrong)
			continue
		}
		isAmbiguous := strings.Contains(wrong.Message, "two ways: an object has two fields ")
		if isAmbiguous != strings.HasPrefix(row.File, "unreadable/two-") {
			t.Errorf("%s: %v", row.File, err)
		}
	}
}

func TestFieldsOfEvidenceHaveTheirExactNames(t *testing.T) {
	evidence, err := readEvidence(map[string]any{
		"type": "thesis.deleted", "dataset": "live", "sequence": json.Number("7"), "thesis_id": "th_1",
		"profile":    map[string]any{"id": "fp_1", "handle": "@ann", "handLE": "@bob"},
		"token":      map[string]any{"id": "tk_1", "chain": "base", "address": "0xRuN", "symbol": "$RUN"},
		"created_at": "2026-11-23T20:39:28.928Z", "recorded_at": "2026-11-23T20:39:29.004Z", "Text": "I was first.",
	})
	if err != nil {
		t.Fatal(err)
	}
	if evidence.Text != nil || evidence.Profile.Handle != "@ann" || evidence.Sequence != 7 {
		t.Errorf("%+v", evidence)
	}
}

func TestNoMutationIsValid(t *testing.T) {
	var mutations []struct {
		File  string
		Edits [][3]any
	}
	if err := json.Unmarshal(readVectorFile(t, "mutations.json"), &mutations); err != nil {
		t.Fatal(err)
	}
	if len(mutations) != 1000 {
		t.Fatal(len(mutations))
	}
	for _, mutation := range mutations {
		content, err := os.ReadFile(filepath.Join(vectorsFolder, mutation.File))
		if err != nil {
			t.Fatal(err)
		}
		var valid struct{ Keys []string }
		if err := json.Unmarshal(content, &valid); err != nil {
			t.Fatal(err)
		}
		for _, edit := range mutation.Edits {
			place, removed := int(edit[0].(float64)), int(edit[1].(float64))
			inserted, err := base64.StdEncoding.DecodeString(edit[2].(string))
			if err != nil {
				t.Fatal(err)
			}
			content = slices.Concat(content[:place], inserted, content[place+removed:])
		}
		var wrong *ReceiptError
		if _, err := VerifyReceipt(content, valid.Keys, nil); !errors.As(err, &wrong) {
			t.Errorf("%+v: %v", mutation, err)
		}
	}
}

func TestTheTreeIsThatOfTheVectors(t *testing.T) {
	var vectors struct {
		Canonical []struct {
			Value json.RawMessage
			JSON  string
		}
		Tree struct {
			Leaves, Roots []string
			Inclusion     []struct {
				Index, Size uint64
				Proof       []string
			}
		}
	}
	readVectors(t, &vectors)
	hash := func(text string) treeHash {
		read, isHash := parseHash(text)
		if !isHash {
			t.Fatal(text)
		}
		return read
	}
	for _, row := range vectors.Tree.Inclusion {
		var path []treeHash
		for _, text := range row.Proof {
			path = append(path, hash(text))
		}
		root, isComplete := rootOfInclusion(row.Index, row.Size, hash(vectors.Tree.Leaves[row.Index]), path)
		if !isComplete || root != hash(vectors.Tree.Roots[row.Size]) {
			t.Errorf("%+v", row)
		}
	}
	for _, row := range vectors.Canonical {
		var value any
		decoder := json.NewDecoder(bytes.NewReader(row.Value))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		if text, err := toCanonical(value); err != nil || string(text) != row.JSON {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAReceiptIsUTF8(t *testing.T) {
	content := readVectorFile(t, "valid/plain.json")
	for later, isValid := range map[string]bool{"\u00ff": true, "\xff": false} {
		read := bytes.Replace(content, []byte("{"), []byte(`{"later": "`+later+`",`), 1)
		if _, err := VerifyReceipt(read, nil, nil); (err == nil) != isValid {
			t.Errorf("%q: %v", later, err)
		}
	}
}

func TestTheEarliestCosignatureCounts(t *testing.T) {
	var vectors struct{ Keys map[string]string }
	readVectors(t, &vectors)
	content := readVectorFile(t, "valid/cosigned-twice.json")
	verified, err := VerifyReceipt(content, nil, []string{vectors.Keys["witness"]})
	if err != nil || verified.Witnesses[0].At.Unix() != 1_790_000_000 {
		t.Errorf("%+v: %v", verified, err)
	}
}

func TestAReceiptHasOneMiBAtMost(t *testing.T) {
	content := readVectorFile(t, "valid/plain.json")
	for size, isValid := range map[int]bool{maxBytes: true, maxBytes + 1: false} {
		padded := append(bytes.Clone(content), bytes.Repeat([]byte(" "), size-len(content))...)
		if _, err := VerifyReceipt(padded, nil, nil); (err == nil) != isValid {
			t.Errorf("%d: %v", size, err)
		}
	}
}

// A receipt of the API that a program writes to a file is still valid.
func TestAReceiptOfTheAPIStaysValid(t *testing.T) {
	for _, name := range []string{"valid/escapes.json", "valid/more-fields.json", "valid/hostile-names.json"} {
		var receipt Receipt
		if err := json.Unmarshal(readVectorFile(t, name), &receipt); err != nil {
			t.Fatal(err)
		}
		written, err := json.Marshal(receipt)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := VerifyReceipt(written, receipt.Keys, nil); err != nil {
			t.Error(name, err)
		}
	}
}
