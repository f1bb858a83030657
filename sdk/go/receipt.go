package tradethesis

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// ReceiptError says why a receipt or a statement proves nothing.
type ReceiptError struct {
	// Fault is a word of the table in the guide "Receipts", such as "root" or "signature". It is "unreadable" if the
	// document is no receipt or statement.
	Fault string
	// Message is a sentence for people.
	Message string
}

// Error describes the fault.
func (e *ReceiptError) Error() string { return "trade thesis: the receipt is not valid: " + e.Message }

func invalid(fault, format string, values ...any) error {
	return &ReceiptError{fault, fmt.Sprintf(format, values...)}
}

// VerifiedReceipt is the content of a valid document, and who vouches for it. One of Evidence, File and Verdict is set.
type VerifiedReceipt struct {
	// Evidence is what the log recorded about a thesis.
	Evidence *ReceiptEvidence
	// File is what the log recorded about a file of the archive.
	File *ReceiptFile
	// Claim and Verdict are the request and the response of a signed statement.
	Claim, Verdict json.RawMessage
	// Dataset is "live" or "sandbox".
	Dataset string
	// Origin is the name of the log.
	Origin string
	// TreeSize is the number of entries that the checkpoint covers.
	TreeSize uint64
	// IsTrusted is true if one of your keys signed. Otherwise the document is only consistent in itself: whoever made it
	// may have made the key.
	IsTrusted bool
	// Witnesses has the cosignature of each witness that you named.
	Witnesses []WitnessCosignature
}

// ReceiptEvidence is what the log recorded about a thesis.
type ReceiptEvidence struct {
	// Type is "thesis.created", "thesis.edited" or "thesis.deleted".
	Type     string `json:"type"`
	Dataset  string `json:"dataset"`
	Sequence uint64 `json:"sequence"`
	ThesisID string `json:"thesis_id"`
	Profile  struct {
		ID     string `json:"id"`
		Handle string `json:"handle"`
	} `json:"profile"`
	Token struct {
		ID      string `json:"id"`
		Chain   string `json:"chain"`
		Address string `json:"address"`
		Symbol  string `json:"symbol"`
	} `json:"token"`
	// Text is nil for a deletion.
	Text *string `json:"text"`
	// CreatedAt is the time that the platform claims.
	CreatedAt string `json:"created_at"`
	// RecordedAt is the time of the record by the service's clock.
	RecordedAt string `json:"recorded_at"`
}

// ReceiptFile is what the log recorded about a file of the archive.
type ReceiptFile struct {
	Date, Kind, SHA256    string
	Position, Rows, Bytes uint64
	RecordedAt            time.Time
}

// WitnessCosignature is the word of a third party that the log had all entries of the checkpoint at a time.
type WitnessCosignature struct {
	Name string
	At   time.Time
}

// VerifyReceipt checks the JSON of a receipt or a statement without network access. Trusted are keys of the service
// that you got from elsewhere, such as those of [Client.ListLogKeys] when you first met it; without any, the document's
// own keys count, and IsTrusted is false. Each of the witnesses must have cosigned. An error is a [*ReceiptError],
// unless it is about a key that you gave.
func VerifyReceipt(document []byte, trusted, witnesses []string) (*VerifiedReceipt, error) {
	read, err := readDocument(document)
	if err != nil {
		return nil, err
	}
	trustedKeys, err := parseKeys(trusted)
	if err != nil {
		return nil, err
	}
	witnessKeys, err := parseKeys(witnesses)
	if err != nil {
		return nil, err
	}
	switch {
	case read.object == "statement":
		return read.verifyStatement(trustedKeys, witnessKeys)
	case read.entry != nil:
		return read.verifyFile(trustedKeys, witnessKeys)
	default:
		return read.verifyThesis(trustedKeys, witnessKeys)
	}
}

func parseKeys(texts []string) ([]verifierKey, error) {
	var keys []verifierKey
	for _, text := range texts {
		key, err := parseKey(text)
		if err != nil {
			return nil, fmt.Errorf("trade thesis: %q: %w", text, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func (d *document) verifyThesis(trusted, witnesses []verifierKey) (*VerifiedReceipt, error) {
	canonical, err := toCanonical(d.evidence)
	if err != nil {
		return nil, invalid("number", "the evidence %v", err)
	}
	evidence, err := readEvidence(d.evidence)
	if err != nil {
		return nil, err
	}
	checked, index, err := d.readEntry()
	if err != nil {
		return nil, err
	}
	switch {
	case d.thesisID != evidence.ThesisID:
		return nil, invalid("thesis", "it names the thesis %s, but its evidence %s", d.thesisID, evidence.ThesisID)
	case d.index != index:
		return nil, invalid("index", "its index is %d, but that of its proof %d", d.index, index)
	case evidence.Sequence != index+1:
		return nil, invalid("sequence", "the evidence is of entry %d, but the proof of entry %d", evidence.Sequence, index+1)
	case evidence.Dataset != checked.dataset:
		return nil, invalid("dataset", "the evidence is of %s, but the log of %s", evidence.Dataset, checked.dataset)
	}
	result := &VerifiedReceipt{Evidence: evidence}
	return d.verifyEntry(result, checked, canonical, trusted, witnesses)
}

// readEvidence reads the fields that every evidence has. Their names are compared exactly.
func readEvidence(value any) (*ReceiptEvidence, error) {
	fields := fieldsOf(value)
	profile, token := fieldsOf(fields["profile"]), fieldsOf(fields["token"])
	isComplete := true
	for _, field := range []any{
		fields["type"], fields["dataset"], fields["thesis_id"], fields["created_at"], fields["recorded_at"],
		profile["id"], profile["handle"], token["id"], token["chain"], token["address"], token["symbol"],
	} {
		_, isText := field.(string)
		isComplete = isComplete && isText
	}
	text, hasText := fields["text"]
	if _, isText := text.(string); hasText && !isText && text != nil {
		isComplete = false
	}
	kinds := []any{"thesis.created", "thesis.edited", "thesis.deleted"}
	sequence, isNumber := wholeNumber(fields["sequence"])
	if !isNumber || !isComplete || !slices.Contains(kinds, fields["type"]) {
		return nil, invalid("evidence", "a field of the evidence is missing or of another type")
	}
	// Unmarshal ignores the case of names, so it would take a field of a later version for one of these.
	evidence := new(ReceiptEvidence)
	evidence.Type, evidence.Dataset = fieldText(fields, "type"), fieldText(fields, "dataset")
	evidence.Sequence, evidence.ThesisID = sequence, fieldText(fields, "thesis_id")
	evidence.Profile.ID, evidence.Profile.Handle = fieldText(profile, "id"), fieldText(profile, "handle")
	evidence.Token.ID, evidence.Token.Chain = fieldText(token, "id"), fieldText(token, "chain")
	evidence.Token.Address, evidence.Token.Symbol = fieldText(token, "address"), fieldText(token, "symbol")
	if text, isText := text.(string); isText {
		evidence.Text = &text
	}
	evidence.CreatedAt, evidence.RecordedAt = fieldText(fields, "created_at"), fieldText(fields, "recorded_at")
	return evidence, nil
}

func (d *document) verifyFile(trusted, witnesses []verifierKey) (*VerifiedReceipt, error) {
	stored, err := decodeBase64(*d.entry)
	if err != nil {
		return nil, invalid("entry", "the entry is no base64")
	}
	hash := sha256.Sum256(stored)
	if hex.EncodeToString(hash[:]) != d.evidence {
		return nil, invalid("entry", "the evidence is not the hash of the entry")
	}
	file, isFile := readFileEntry(stored)
	if !isFile {
		return nil, invalid("entry", "the entry is not that of an archive file")
	}
	checked, index, err := d.readEntry()
	if err != nil {
		return nil, err
	}
	switch {
	case d.date != file.Date || d.kind != file.Kind || d.sha256 != file.SHA256:
		return nil, invalid("file", "it names another archive file than its entry")
	case d.index != index:
		return nil, invalid("index", "its index is %d, but that of its proof %d", d.index, index)
	}
	return d.verifyEntry(&VerifiedReceipt{File: file}, checked, hash[:], trusted, witnesses)
}

// readEntry reads the parts of a receipt that say where the entry is.
func (d *document) readEntry() (*signedCheckpoint, uint64, error) {
	if salt, err := decodeBase64(d.salt); err != nil || len(salt) != saltBytes {
		return nil, 0, invalid("salt", "the salt does not have 16 bytes")
	}
	index, path, checkpoint, isProof := parseProof(d.proof)
	if !isProof {
		return nil, 0, invalid("form", "the proof has another format")
	}
	checked, err := readCheckpoint(checkpoint)
	if err != nil {
		return nil, 0, err
	}
	checked.path = path
	return checked, index, nil
}

// verifyEntry checks that the log has an entry with this evidence.
func (d *document) verifyEntry(
	result *VerifiedReceipt, checked *signedCheckpoint, evidence []byte, trusted, witnesses []verifierKey,
) (*VerifiedReceipt, error) {
	if err := checked.checkLivemode(d.livemode); err != nil {
		return nil, err
	}
	isTrusted, err := checked.checkKeys(d.keys, trusted)
	if err != nil {
		return nil, err
	}
	if d.index >= checked.size {
		return nil, invalid("beyond", "the checkpoint does not reach this entry")
	}
	salt, err := decodeBase64(d.salt)
	if err != nil {
		return nil, invalid("salt", "the salt is no base64")
	}
	commitment := sha256.Sum256(slices.Concat(salt, evidence))
	root, isComplete := rootOfInclusion(d.index, checked.size, leafHash(commitment), checked.path)
	if !isComplete {
		return nil, invalid("length", "the proof has %d hashes, and no proof for the entry %d of %d has that many",
			len(checked.path), d.index+1, checked.size)
	}
	if root != checked.root {
		return nil, invalid("root", "evidence and salt do not belong to the hashes of the proof, or one of them was changed")
	}
	return checked.finish(result, isTrusted, witnesses)
}

func (d *document) verifyStatement(trusted, witnesses []verifierKey) (*VerifiedReceipt, error) {
	claim, err := toCanonical(d.claim)
	if err != nil {
		return nil, invalid("number", "the claim %v", err)
	}
	verdict, err := toCanonical(d.verdict)
	if err != nil {
		return nil, invalid("number", "the verdict %v", err)
	}
	checked, err := readCheckpoint(d.checkpoint)
	if err != nil {
		return nil, err
	}
	if err := checked.checkLivemode(d.livemode); err != nil {
		return nil, err
	}
	isTrusted, err := checked.checkKeys(d.keys, trusted)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("trade-thesis statement v1\n%s%s\n%s\n", checked.lines(), claim, verdict)
	signed, isNote := parseNote(text + "\n" + d.signature)
	if !isNote || signed.text != text {
		return nil, invalid("form", "the signature of the statement has another format")
	}
	for _, key := range checked.keys {
		if err := signed.checkSignature(key, "statement"); err != nil {
			return nil, err
		}
	}
	return checked.finish(&VerifiedReceipt{Claim: claim, Verdict: verdict}, isTrusted, witnesses)
}

// document is a receipt or a statement as it was read.
type document struct {
	object, thesisID, date, kind, sha256, salt, proof string
	checkpoint, signature                             string
	// entry is set in the receipt of an archive file.
	entry                    *string
	evidence, claim, verdict any
	index                    uint64
	keys                     []string
	livemode                 bool
}

// readDocument reads the fields of a document by their exact names, which encoding/json alone does not do.
func readDocument(content []byte) (*document, error) {
	if len(content) > maxBytes {
		return nil, invalid("unreadable", "it is larger than 1 MiB")
	}
	// encoding/json would replace what is no UTF-8.
	if !utf8.Valid(content) {
		return nil, invalid("unreadable", "it is not a text in UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, invalid("unreadable", "it is no JSON: %v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, invalid("unreadable", "something follows its JSON")
	}
	if err := checkValue(value, 0); err != nil {
		return nil, invalid("unreadable", "it is no JSON that every reader takes: %v", err)
	}
	if hasLoneSurrogate(content) {
		return nil, invalid("unreadable", "it is no JSON: a text has an incomplete character")
	}
	if problem := ambiguity(json.NewDecoder(bytes.NewReader(content))); problem != "" {
		return nil, invalid("unreadable", "it can be read in two ways: %s", problem)
	}
	reader := fieldReader{fields: fieldsOf(value)}
	read := &document{object: reader.text("object")}
	_, isOfFile := reader.fields["entry"]
	switch {
	case read.object == "statement":
		read.claim, read.verdict = reader.value("claim"), reader.value("verdict")
		read.checkpoint, read.signature = reader.text("checkpoint"), reader.text("signature")
	case read.object != "receipt":
		return nil, invalid("unreadable", "it is neither a receipt nor a statement")
	case isOfFile:
		entry := reader.text("entry")
		read.entry = &entry
		read.date, read.kind, read.sha256 = reader.text("date"), reader.text("kind"), reader.text("sha256")
		read.evidence = reader.text("evidence")
	default:
		read.thesisID, read.evidence = reader.text("thesis_id"), reader.value("evidence")
	}
	if read.object == "receipt" {
		read.salt, read.proof, read.index = reader.text("salt"), reader.text("proof"), reader.number("index")
	}
	read.keys, read.livemode = reader.texts("keys"), reader.boolean("livemode")
	if len(reader.wrong) > 0 {
		return nil, invalid("unreadable", "fields are missing or of another type: %s", strings.Join(reader.wrong, ", "))
	}
	return read, nil
}
