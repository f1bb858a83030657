package tradethesis

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	signatureMark = "\u2014 "
	maxSignatures = 64
	// The types of keys: that of a log signs a text, that of a witness signs a text and a time.
	logKind     = 1
	witnessKind = 4
	// maxTime is the last second of the year 9999. Many languages have no later time.
	maxTime = 253_402_300_799
)

// verifierKey is a public key with its name: a vkey of C2SP.
type verifierKey struct {
	name   string
	kind   byte
	public [ed25519.PublicKeySize]byte
}

func parseKey(text string) (verifierKey, error) {
	parts := strings.SplitN(text, "+", 3)
	if len(parts) != 3 || !isKeyName(parts[0]) {
		return verifierKey{}, errors.New("a key has the form name+id+key")
	}
	content, err := decodeBase64(parts[2])
	if err != nil || len(content) != 1+ed25519.PublicKeySize {
		return verifierKey{}, errors.New("a key has the form name+id+key, with an Ed25519 key")
	}
	key := verifierKey{name: parts[0], kind: content[0], public: [ed25519.PublicKeySize]byte(content[1:])}
	if key.kind != logKind && key.kind != witnessKind {
		return verifierKey{}, errors.New("only Ed25519 keys of logs and witnesses are supported")
	}
	id := key.id()
	if hex.EncodeToString(id[:]) != parts[1] {
		return verifierKey{}, errors.New("the id of the key does not belong to its name and its public key")
	}
	return key, nil
}

func isKeyName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(letter rune) bool {
		return unicode.IsSpace(letter) || unicode.IsControl(letter) || letter == '+'
	})
}

// id stands beside the name in signature lines.
func (k verifierKey) id() [4]byte {
	hash := sha256.Sum256(slices.Concat([]byte(k.name), []byte{'\n', k.kind}, k.public[:]))
	return [4]byte(hash[:4])
}

// note is a text with signatures that are not verified yet.
type note struct {
	text       string
	signatures []noteSignature
}

type noteSignature struct {
	name    string
	id      [4]byte
	content []byte
}

func parseNote(content string) (*note, bool) {
	hasControl := strings.ContainsFunc(content, func(letter rune) bool { return letter < ' ' && letter != '\n' })
	split := strings.LastIndex(content, "\n\n")
	if hasControl || split < 0 {
		return nil, false
	}
	lines, isEnded := strings.CutSuffix(content[split+2:], "\n")
	if !isEnded {
		return nil, false
	}
	read := &note{text: content[:split+1]}
	for _, line := range strings.Split(lines, "\n") {
		signature, isSignature := parseSignature(line)
		if !isSignature || len(read.signatures) == maxSignatures {
			return nil, false
		}
		read.signatures = append(read.signatures, signature)
	}
	return read, true
}

func parseSignature(line string) (noteSignature, bool) {
	line, isMarked := strings.CutPrefix(line, signatureMark)
	name, text, isSplit := strings.Cut(line, " ")
	content, err := decodeBase64(text)
	if !isMarked || !isSplit || err != nil || len(content) < 5 || !isKeyName(name) {
		return noteSignature{}, false
	}
	return noteSignature{name, [4]byte(content[:4]), content[4:]}, true
}

// checkSignature checks that the key of a log signed the text, and that no signature by it is wrong.
func (n *note) checkSignature(key verifierKey, signed string) error {
	isSigned := false
	for _, signature := range n.signatures {
		if signature.name != key.name || signature.id != key.id() {
			continue
		}
		if !ed25519.Verify(key.public[:], []byte(n.text), signature.content) {
			return invalid("signature", "the signature of the %s by %s is wrong", signed, key.name)
		}
		isSigned = true
	}
	if !isSigned {
		return invalid("unsigned", "the %s is not signed by the listed key of %s", signed, key.name)
	}
	return nil
}

// cosignedAt returns the earliest time at which a witness cosigned the text.
func (n *note) cosignedAt(key verifierKey) (time.Time, error) {
	if key.kind != witnessKind {
		return time.Time{}, invalid("witness", "the key of %s is not that of a witness", key.name)
	}
	var earliest uint64
	isCosigned := false
	for _, signature := range n.signatures {
		if signature.name != key.name || signature.id != key.id() {
			continue
		}
		at, isRight := signature.cosignedAt(n.text, key)
		if !isRight {
			return time.Time{}, invalid("signature", "the cosignature of %s is wrong", key.name)
		}
		if !isCosigned || at < earliest {
			earliest = at
		}
		isCosigned = true
	}
	if !isCosigned {
		return time.Time{}, invalid("witness", "the witness %s has not cosigned the checkpoint", key.name)
	}
	return time.Unix(int64(earliest), 0).UTC(), nil
}

func (s noteSignature) cosignedAt(text string, key verifierKey) (uint64, bool) {
	if len(s.content) != 8+ed25519.SignatureSize {
		return 0, false
	}
	at := binary.BigEndian.Uint64(s.content)
	message := fmt.Sprintf("cosignature/v1\ntime %d\n%s", at, text)
	return at, at <= maxTime && ed25519.Verify(key.public[:], []byte(message), s.content[8:])
}

// signedCheckpoint is size and root of a tree, signed by its log.
type signedCheckpoint struct {
	note            *note
	origin, dataset string
	size            uint64
	root            treeHash
	keys            []verifierKey
	// path leads from a leaf to the root.
	path []treeHash
}

func readCheckpoint(content string) (*signedCheckpoint, error) {
	wrongForm := invalid("form", "the checkpoint has another format")
	signed, isNote := parseNote(content)
	if !isNote {
		return nil, wrongForm
	}
	lines := strings.Split(strings.TrimSuffix(signed.text, "\n"), "\n")
	if len(lines) < 3 || slices.Contains(lines[3:], "") || lines[0] == "" {
		return nil, wrongForm
	}
	size, isNumber := parseNumber(lines[1])
	root, isHash := parseHash(lines[2])
	if !isNumber || !isHash {
		return nil, wrongForm
	}
	parts := strings.Split(lines[0], "/")
	isKnown := len(parts) == 3 && (parts[1] == "live" || parts[1] == "sandbox")
	if !isKnown || parts[0] != "trade-thesis" || parts[2] == "" {
		return nil, invalid("origin", "%q is not a log of this service", lines[0])
	}
	return &signedCheckpoint{note: signed, origin: lines[0], dataset: parts[1], size: size, root: root}, nil
}

// lines returns origin, size and root as the checkpoint has them.
func (c *signedCheckpoint) lines() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.origin, c.size, base64.StdEncoding.EncodeToString(c.root[:]))
}

func (c *signedCheckpoint) checkLivemode(livemode bool) error {
	if livemode != (c.dataset == "live") {
		return invalid("livemode", "it says livemode %t, but the log is of %s", livemode, c.dataset)
	}
	return nil
}

// checkKeys checks that each listed key signed the checkpoint, and returns whether one of them is trusted.
func (c *signedCheckpoint) checkKeys(listed []string, trusted []verifierKey) (bool, error) {
	// The number of signature checks grows with the number of keys.
	if len(listed) == 0 || len(listed) > maxSignatures {
		return false, invalid("keys", "it lists no key, or more than %d keys", maxSignatures)
	}
	for _, text := range listed {
		key, err := parseKey(text)
		if err != nil {
			return false, invalid("key", "the listed key %q is not valid: %v", text, err)
		}
		if key.kind != logKind || key.name != c.origin {
			return false, invalid("key", "the listed key %q is not that of the log %s", text, c.origin)
		}
		if err := c.note.checkSignature(key, "checkpoint"); err != nil {
			return false, err
		}
		c.keys = append(c.keys, key)
	}
	isTrusted := slices.ContainsFunc(trusted, func(key verifierKey) bool { return slices.Contains(c.keys, key) })
	if !isTrusted && len(trusted) > 0 {
		return false, invalid("untrusted", "none of the keys that you trust is listed")
	}
	return isTrusted, nil
}

func (c *signedCheckpoint) finish(
	result *VerifiedReceipt, isTrusted bool, witnesses []verifierKey,
) (*VerifiedReceipt, error) {
	for _, key := range witnesses {
		at, err := c.note.cosignedAt(key)
		if err != nil {
			return nil, err
		}
		result.Witnesses = append(result.Witnesses, WitnessCosignature{key.name, at})
	}
	result.Dataset, result.Origin, result.TreeSize, result.IsTrusted = c.dataset, c.origin, c.size, isTrusted
	return result, nil
}

// decodeBase64 takes only the one form of a text that encoders write.
func decodeBase64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("no base64")
	}
	return base64.StdEncoding.Strict().DecodeString(text)
}

func parseNumber(text string) (uint64, bool) {
	number, err := strconv.ParseUint(text, 10, 64)
	return number, err == nil && number <= maxInteger && strconv.FormatUint(number, 10) == text
}

func parseHash(text string) (treeHash, bool) {
	content, err := decodeBase64(text)
	if err != nil || len(content) != sha256.Size {
		return treeHash{}, false
	}
	return treeHash(bytes.Clone(content)), true
}
