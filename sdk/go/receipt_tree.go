package tradethesis

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// saltBytes is the length of a salt.
const saltBytes = 16

// treeHash is a hash of the Merkle tree of a log, as RFC 9162 defines it.
type treeHash [sha256.Size]byte

func leafHash(commitment [sha256.Size]byte) treeHash {
	return sha256.Sum256(append([]byte{0}, commitment[:]...))
}

func nodeHash(left, right treeHash) treeHash {
	return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:]))
}

// rootOfInclusion returns the root to which a proof leads from a leaf. It is false if the proof has another length.
func rootOfInclusion(index, size uint64, leaf treeHash, path []treeHash) (treeHash, bool) {
	if index >= size {
		return treeHash{}, false
	}
	node, last, root := index, size-1, leaf
	for _, sibling := range path {
		if last == 0 {
			return treeHash{}, false
		}
		if node&1 == 1 || node == last {
			root = nodeHash(sibling, root)
			if node > 0 {
				skipped := bits.TrailingZeros64(node)
				node, last = node>>skipped, last>>skipped
			}
		} else {
			root = nodeHash(root, sibling)
		}
		node, last = node>>1, last>>1
	}
	return root, last == 0
}

// parseProof reads a tlog-proof of C2SP: the index of the leaf, the hashes up to the root, and the checkpoint.
func parseProof(text string) (index uint64, path []treeHash, checkpoint string, isProof bool) {
	head, checkpoint, isSplit := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	if !isSplit || len(lines) < 2 || lines[0] != "c2sp.org/tlog-proof@v1" {
		return 0, nil, "", false
	}
	digits, isIndex := strings.CutPrefix(lines[1], "index ")
	index, isNumber := parseNumber(digits)
	if !isIndex || !isNumber {
		return 0, nil, "", false
	}
	for _, line := range lines[2:] {
		hash, isHash := parseHash(line)
		if !isHash {
			return 0, nil, "", false
		}
		path = append(path, hash)
	}
	return index, path, checkpoint, true
}

// maxTimeMS is the last millisecond of the year 9999.
const maxTimeMS = maxTime*1000 + 999

// readFileEntry reads the entry of an archive file, which is a message of protobuf.
func readFileEntry(stored []byte) (*ReceiptFile, bool) {
	entry, isMessage := readMessage(stored)
	if !isMessage || len(entry[17]) == 0 {
		return nil, false
	}
	isComplete := true
	content, recordedAt := entry.bytes(17, &isComplete), entry.number(2, &isComplete)
	file, isMessage := readMessage(content)
	if !isMessage {
		return nil, false
	}
	date, kind, hash := file.bytes(1, &isComplete), file.bytes(2, &isComplete), file.bytes(6, &isComplete)
	isText := utf8.Valid(date) && utf8.Valid(kind) && utf8.Valid(hash)
	position, rows, size := file.number(3, &isComplete), file.number(4, &isComplete), file.number(5, &isComplete)
	if !isText || !isComplete || recordedAt > maxTimeMS {
		return nil, false
	}
	return &ReceiptFile{
		Date: string(date), Kind: string(kind), SHA256: string(hash),
		Position: position, Rows: rows, Bytes: size,
		RecordedAt: time.UnixMilli(int64(recordedAt)).UTC(),
	}, true
}

// messageFields has the values of the fields of a message: uint64, []byte, and nil for a number of a fixed size, which
// no field of an entry is. Libraries differ in what they do with several values of a field, so they are refused.
type messageFields map[uint64][]any

func (f messageFields) number(field uint64, isRight *bool) uint64 {
	if len(f[field]) == 0 {
		return 0
	}
	number, isNumber := f[field][0].(uint64)
	*isRight = *isRight && isNumber && len(f[field]) == 1
	return number
}

func (f messageFields) bytes(field uint64, isRight *bool) []byte {
	if len(f[field]) == 0 {
		return nil
	}
	content, areBytes := f[field][0].([]byte)
	*isRight = *isRight && areBytes && len(f[field]) == 1
	return content
}

// readMessage reads the fields of a message of protobuf.
func readMessage(message []byte) (messageFields, bool) {
	fields := messageFields{}
	for len(message) > 0 {
		tag, size := binary.Uvarint(message)
		field, length := tag>>3, uint64(0)
		if size <= 0 || field < 1 || field >= 1<<29 {
			return nil, false
		}
		message = message[size:]
		switch tag & 7 {
		case 0, 2:
			value, size := binary.Uvarint(message)
			if size <= 0 {
				return nil, false
			}
			message = message[size:]
			if tag&7 == 0 {
				fields[field] = append(fields[field], value)
				continue
			}
			length = value
		case 1:
			length = 8
		case 5:
			length = 4
		default:
			return nil, false
		}
		if length > uint64(len(message)) {
			return nil, false
		}
		var value any
		if tag&7 == 2 {
			value = message[:length]
		}
		fields[field] = append(fields[field], value)
		message = message[length:]
	}
	return fields, true
}
