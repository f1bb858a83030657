// Checks receipts with golang.org/x/mod: sumdb/tlog verifies the tree, and sumdb/note the signed notes. The first argument
// is the folder of the test vectors. Each further one is a receipt, which must be valid.
package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type document struct {
	Object     string
	ThesisID   string `json:"thesis_id"`
	Date       string
	Kind       string
	SHA256     string
	Entry      []byte
	Evidence   any
	Salt       []byte
	Index      int64
	Proof      string
	Claim      any
	Verdict    any
	Checkpoint string
	Signature  string
	Keys       []string
	Livemode   bool
}

type vectors struct {
	Canonical []struct {
		Value any
		JSON  string
	}
	Tree struct {
		Leaves, Roots []tlog.Hash
		Inclusion     []struct {
			Index, Size int64
			Proof       []tlog.Hash
		}
		Consistency []struct {
			Old, New int64
			Proof    []tlog.Hash
		}
	}
	Documents []struct {
		File               string
		Trusted, Witnesses []string
		Wrong              *string
	}
}

const (
	maxSignatures = 64
	// maxTime is the last second of the year 9999.
	maxTime = 253_402_300_799
)

// witness verifies the cosignatures of C2SP, which note does not know.
type witness struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

func (w witness) Name() string    { return w.name }
func (w witness) KeyHash() uint32 { return w.hash }
func (w witness) Verify(text, signature []byte) bool {
	if len(signature) != 8+ed25519.SignatureSize {
		return false
	}
	time := binary.BigEndian.Uint64(signature)
	message := fmt.Sprintf("cosignature/v1\ntime %d\n%s", time, text)
	return time <= maxTime && ed25519.Verify(w.key, []byte(message), signature[8:])
}

// verifier reads the key of a log or of a witness.
func verifier(text string) (note.Verifier, error) {
	parts := strings.SplitN(text, "+", 3)
	// encoding/base64 skips newlines.
	if len(parts) != 3 || strings.ToLower(parts[1]) != parts[1] || strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("not a key")
	}
	key, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(key) != 33 || key[0] != 4 {
		return note.NewVerifier(text)
	}
	hash := sha256.Sum256(append([]byte(parts[0]+"\n"), key...))
	if fmt.Sprintf("%x", hash[:4]) != parts[1] {
		return nil, errors.New("the id of a key is wrong")
	}
	return witness{parts[0], binary.BigEndian.Uint32(hash[:4]), key[1:]}, nil
}

// signed returns the text of a note that this key signed.
func signed(text, key string) (string, error) {
	known, err := verifier(key)
	if err != nil {
		return "", err
	}
	opened, err := note.Open([]byte(text), note.VerifierList(known))
	if err != nil {
		return "", err
	}
	return opened.Text, checkSignatures(text[len(opened.Text)+1:], opened.Text, known)
}

// checkSignatures checks what note does not: the number of signatures, control characters in their names, and each
// signature by a key instead of the first one.
func checkSignatures(lines, text string, known note.Verifier) error {
	isControl := func(letter rune) bool { return letter != '\n' && unicode.IsControl(letter) }
	if strings.Count(lines, "\n") > maxSignatures || strings.ContainsFunc(lines, isControl) {
		return errors.New("too many signatures, or a control character in a name")
	}
	for _, line := range strings.Split(strings.TrimSuffix(lines, "\n"), "\n") {
		name, encoded, _ := strings.Cut(strings.TrimPrefix(line, "\u2014 "), " ")
		content, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return err
		}
		isByKey := name == known.Name() && binary.BigEndian.Uint32(content) == known.KeyHash()
		if isByKey && !known.Verify([]byte(text), content[4:]) {
			return errors.New("a signature is wrong")
		}
	}
	return nil
}

func hashOf(line string) (tlog.Hash, error) { return tlog.ParseHash(line) }

// verify returns why a document proves nothing.
func verify(content []byte, trusted, witnesses []string) error {
	var doc document
	exact, err := decodeExactly(content, &doc)
	if err != nil {
		return err
	}
	// encoding/json takes null for a text that is absent.
	if entry, isThere := exact["entry"]; exact["livemode"] == nil || (isThere && entry == nil) {
		return errors.New("a field is missing")
	}
	// encoding/json skips newlines in base64, and bits that mean nothing.
	if salt, isThere := exact["salt"]; isThere && salt != base64.StdEncoding.EncodeToString(doc.Salt) {
		return errors.New("the salt is no base64")
	}
	checkpoint, path, index := doc.Checkpoint, []tlog.Hash{}, int64(0)
	if doc.Object == "receipt" {
		head, rest, _ := strings.Cut(doc.Proof, "\n\n")
		lines := strings.Split(head, "\n")
		if len(lines) < 2 || lines[0] != "c2sp.org/tlog-proof@v1" || lines[1] != fmt.Sprintf("index %d", doc.Index) {
			return errors.New("another form of a proof, or of another entry")
		}
		for _, line := range lines[2:] {
			hash, err := hashOf(line)
			if err != nil {
				return err
			}
			path = append(path, hash)
		}
		checkpoint, index = rest, doc.Index
	} else if doc.Object != "statement" {
		return errors.New("neither a receipt nor a statement")
	}
	if len(doc.Keys) == 0 || len(doc.Keys) > maxSignatures {
		return errors.New("no key, or too many")
	}
	var text string
	for _, key := range append(slices.Clone(doc.Keys), witnesses...) {
		if text, err = signed(checkpoint, key); err != nil {
			return err
		}
	}
	isTrusted := slices.ContainsFunc(trusted, func(key string) bool { return slices.Contains(doc.Keys, key) })
	if len(trusted) > 0 && !isTrusted {
		return errors.New("signed by no key that is trusted")
	}
	lines := strings.Split(text, "\n")
	origin := strings.Split(lines[0], "/")
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || len(origin) != 3 || origin[0] != "trade-thesis" || doc.Livemode != (origin[1] == "live") {
		return errors.New("the checkpoint of another log")
	}
	for _, key := range doc.Keys {
		if !strings.HasPrefix(key, lines[0]+"+") {
			return errors.New("the key of another log")
		}
	}
	root, err := hashOf(lines[2])
	if err != nil {
		return err
	}
	if doc.Object == "statement" {
		return verifyStatement(doc, strings.Join(lines[:3], "\n"))
	}
	return verifyEntry(doc, origin[1], path, index, size, root)
}

func verifyEntry(doc document, dataset string, path []tlog.Hash, index, size int64, root tlog.Hash) error {
	if len(doc.Salt) != 16 {
		return errors.New("not a salt")
	}
	evidenceOf := thesisEvidence
	if doc.Entry != nil {
		evidenceOf = fileEvidence
	}
	evidence, err := evidenceOf(doc, dataset, index)
	if err != nil {
		return err
	}
	commitment := sha256.Sum256(append(slices.Clone(doc.Salt), evidence...))
	return tlog.CheckRecord(path, size, root, index, tlog.RecordHash(commitment[:]))
}

func thesisEvidence(doc document, dataset string, index int64) ([]byte, error) {
	evidence, isObject := doc.Evidence.(map[string]any)
	sequence := json.Number(strconv.FormatInt(index+1, 10))
	isSame := isObject && evidence["sequence"] == sequence && evidence["dataset"] == dataset
	if !isSame || evidence["thesis_id"] != doc.ThesisID {
		return nil, errors.New("the evidence of another entry")
	}
	var out strings.Builder
	err := canonical(doc.Evidence, &out)
	return []byte(out.String()), err
}

// fileEvidence returns the hash of the stored entry, which must be about the archive file that the receipt names.
func fileEvidence(doc document, _ string, _ int64) ([]byte, error) {
	hash := sha256.Sum256(doc.Entry)
	if doc.Evidence != hex.EncodeToString(hash[:]) {
		return nil, errors.New("the evidence is not the hash of the entry")
	}
	entry, err := fields(doc.Entry, map[uint64]any{2: uint64(0), 17: nil})
	if err != nil {
		return nil, err
	}
	content, isOfFile := entry[17].(string)
	if !isOfFile || entry[2].(uint64) >= (maxTime+1)*1000 {
		return nil, errors.New("the entry is not about a file, or after the year 9999")
	}
	known := map[uint64]any{1: "", 2: "", 3: uint64(0), 4: uint64(0), 5: uint64(0), 6: ""}
	file, err := fields([]byte(content), known)
	if err != nil {
		return nil, err
	}
	if file[1] != doc.Date || file[2] != doc.Kind || file[6] != doc.SHA256 {
		return nil, errors.New("the entry is about another file")
	}
	return hash[:], nil
}

// fields reads a protobuf message. Found has the known fields with their defaults: whole numbers, and texts or messages.
// It refuses a known field of another type, and one that occurs twice. A field with the default nil has any type.
func fields(message []byte, found map[uint64]any) (map[uint64]any, error) {
	cutOff, seen := errors.New("the entry is cut off"), map[uint64]bool{}
	for len(message) > 0 {
		tag, size := binary.Uvarint(message)
		if size <= 0 {
			return nil, cutOff
		}
		message = message[size:]
		var value any
		length, size := binary.Uvarint(message)
		switch tag % 8 {
		case 0:
			length, value = 0, length
		case 1:
			length, size = 8, 0
		case 2:
		case 5:
			length, size = 4, 0
		default:
			return nil, errors.New("a field of another type")
		}
		if size < 0 || tag%8%2 == 0 && size == 0 || length > uint64(len(message)-size) {
			return nil, cutOff
		}
		if tag%8 == 2 {
			value = string(message[size:][:length])
		}
		message = message[size:][length:]
		field := tag / 8
		known, isKnown := found[field]
		if field < 1 || field >= 1<<29 || isKnown && (seen[field] || known != nil && reflect.TypeOf(value) != reflect.TypeOf(known)) {
			return nil, errors.New("a field twice, or of another type")
		}
		if isKnown {
			found[field], seen[field] = value, true
		}
	}
	return found, nil
}

func verifyStatement(doc document, checkpoint string) error {
	var out strings.Builder
	out.WriteString("trade-thesis statement v1\n" + checkpoint + "\n")
	for _, value := range []any{doc.Claim, doc.Verdict} {
		if err := canonical(value, &out); err != nil {
			return err
		}
		out.WriteByte('\n')
	}
	for _, key := range doc.Keys {
		if text, err := signed(out.String()+"\n"+doc.Signature, key); err != nil || text != out.String() {
			return errors.New("the statement is not signed")
		}
	}
	return nil
}

func checkTree(v vectors) {
	tree := v.Tree
	for number, leaf := range tree.Leaves {
		if tlog.RecordHash([]byte{byte(number)}) != leaf {
			log.Fatalf("leaf %d differs", number)
		}
	}
	for _, row := range tree.Inclusion {
		if err := tlog.CheckRecord(row.Proof, row.Size, tree.Roots[row.Size], row.Index, tree.Leaves[row.Index]); err != nil {
			log.Fatalf("%+v: %v", row, err)
		}
	}
	for _, row := range tree.Consistency {
		if err := tlog.CheckTree(row.Proof, row.New, tree.Roots[row.New], row.Old, tree.Roots[row.Old]); err != nil {
			log.Fatalf("%+v: %v", row, err)
		}
	}
	for _, row := range v.Canonical {
		var out strings.Builder
		if err := canonical(row.Value, &out); err != nil || out.String() != row.JSON {
			log.Fatalf("%s: %v", row.JSON, err)
		}
	}
}

func read(path string) []byte {
	content, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	return content
}

func main() {
	folder, files := os.Args[1], os.Args[2:]
	var v vectors
	if err := decode(read(filepath.Join(folder, "vectors.json")), &v); err != nil {
		log.Fatal(err)
	}
	checkTree(v)
	for _, row := range v.Documents {
		err := verify(read(filepath.Join(folder, row.File)), row.Trusted, row.Witnesses)
		if (err == nil) != (row.Wrong == nil) {
			log.Fatalf("%s: %v", row.File, err)
		}
	}
	for _, file := range files {
		if err := verify(read(file), nil, nil); err != nil {
			log.Fatalf("%s: %v", file, err)
		}
	}
	fmt.Println(len(v.Documents)+len(files), "documents")
}
