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

// readFileEntry reads the entry of an archive file, which is a message of protobuf.
func readFileEntry(stored []byte) (*ReceiptFile, bool) {
	numbers, texts, isMessage := readMessage(stored)
	content, isOfFile := texts[17]
	if !isMessage || !isOfFile {
		return nil, false
	}
	of, text, isMessage := readMessage(content)
	isText := utf8.Valid(text[1]) && utf8.Valid(text[2]) && utf8.Valid(text[6])
	return &ReceiptFile{
		Date: string(text[1]), Kind: string(text[2]), SHA256: string(text[6]),
		Position: of[3], Rows: of[4], Bytes: of[5],
		RecordedAt: time.UnixMilli(int64(numbers[2])).UTC(),
	}, isMessage && isText
}

// readMessage reads the numbers and texts of a message of protobuf. It skips fields of a fixed size.
func readMessage(message []byte) (numbers map[uint64]uint64, texts map[uint64][]byte, isMessage bool) {
	numbers, texts = map[uint64]uint64{}, map[uint64][]byte{}
	for len(message) > 0 {
		tag, size := binary.Uvarint(message)
		if size <= 0 {
			return nil, nil, false
		}
		message = message[size:]
		var value uint64
		length := uint64(0)
		switch tag & 7 {
		case 0, 2:
			if value, size = binary.Uvarint(message); size <= 0 {
				return nil, nil, false
			}
			message = message[size:]
			if tag&7 == 2 {
				length = value
			} else {
				numbers[tag>>3] = value
			}
		case 1:
			length = 8
		case 5:
			length = 4
		default:
			return nil, nil, false
		}
		if length > uint64(len(message)) {
			return nil, nil, false
		}
		if tag&7 == 2 {
			texts[tag>>3] = message[:length]
		}
		message = message[length:]
	}
	return numbers, texts, true
}
