// JSON as receipts have it: what may not be read, and the canonical form of RFC 8785.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// The largest whole number that every reader of JSON keeps.
const maxInteger = 1<<53 - 1

// decode reads JSON whose numbers stay as they are written.
func decode(content []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("something follows the JSON")
	}
	return nil
}

// fieldName matches the names of all fields of a document.
var fieldName = regexp.MustCompile(`^[a-z0-9_]+$`)

// decodeExactly reads a document by the exact names of its fields, which it also returns. It refuses JSON that readers
// understand differently.
func decodeExactly(content []byte, into any) (map[string]any, error) {
	var exact map[string]any
	if err := decode(content, &exact); err != nil {
		return nil, err
	}
	if err := check(content); err != nil {
		return nil, err
	}
	if !namesAreUnique(json.NewDecoder(bytes.NewReader(content))) {
		return nil, errors.New("an object has two fields of one name, or one that a parser of Rust takes for JSON")
	}
	// encoding/json ignores the case of names, so it would take other fields for these.
	maps.DeleteFunc(exact, func(name string, _ any) bool { return !fieldName.MatchString(name) })
	fields, err := json.Marshal(exact)
	if err != nil {
		return nil, err
	}
	return exact, decode(fields, into)
}

// escape finds the escapes in JSON. A whole surrogate pair is one match, and half of a pair is in the group.
var escape = regexp.MustCompile(`\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F])|.)`)

// check refuses JSON that encoding/json takes and others refuse: half of a surrogate pair, a number that is too large,
// and more than 127 levels.
func check(content []byte) error {
	for _, match := range escape.FindAllSubmatchIndex(content, -1) {
		if match[2] >= 0 {
			return errors.New("half of a surrogate pair")
		}
	}
	decoder, depth := json.NewDecoder(bytes.NewReader(content)), 0
	for {
		switch token, err := decoder.Token(); token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		default:
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
		if depth > 127 {
			return errors.New("more than 127 levels")
		}
	}
}

// namesAreUnique tells whether no object has two fields of one name, and none has the field whose text serde_json of Rust
// reads as JSON. The content must be JSON.
func namesAreUnique(decoder *json.Decoder) bool {
	token, _ := decoder.Token()
	bracket, isBracket := token.(json.Delim)
	if !isBracket {
		return true
	}
	names := map[json.Token]bool{}
	for decoder.More() {
		if bracket == '{' {
			name, _ := decoder.Token()
			if names[name] || name == "$serde_json::private::RawValue" {
				return false
			}
			names[name] = true
		}
		if !namesAreUnique(decoder) {
			return false
		}
	}
	_, _ = decoder.Token()
	return true
}

// canonical writes a value as RFC 8785 demands; only whole numbers occur.
func canonical(value any, out *strings.Builder) error {
	switch value := value.(type) {
	case nil:
		out.WriteString("null")
	case bool:
		out.WriteString(strconv.FormatBool(value))
	case string:
		canonicalText(value, out)
	case json.Number:
		number, err := strconv.ParseInt(value.String(), 10, 64)
		if err != nil || number > maxInteger || number < -maxInteger || strconv.FormatInt(number, 10) != value.String() {
			return fmt.Errorf("%v is not a whole number", value)
		}
		out.WriteString(value.String())
	case []any:
		out.WriteByte('[')
		for place, one := range value {
			if place > 0 {
				out.WriteByte(',')
			}
			if err := canonical(one, out); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case map[string]any:
		names := make([]string, 0, len(value))
		for name := range value {
			names = append(names, name)
		}
		slices.SortFunc(names, func(one, other string) int {
			return slices.Compare(utf16.Encode([]rune(one)), utf16.Encode([]rune(other)))
		})
		out.WriteByte('{')
		for place, name := range names {
			if place > 0 {
				out.WriteByte(',')
			}
			canonicalText(name, out)
			out.WriteByte(':')
			if err := canonical(value[name], out); err != nil {
				return err
			}
		}
		out.WriteByte('}')
	default:
		return fmt.Errorf("%T in JSON", value)
	}
	return nil
}

// canonicalText does what encoding/json cannot: it escapes only what must be escaped.
func canonicalText(text string, out *strings.Builder) {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	out.WriteByte('"')
	for _, letter := range text {
		if escaped, known := short[letter]; known {
			out.WriteString(escaped)
		} else if letter < 0x20 {
			fmt.Fprintf(out, `\u%04x`, letter)
		} else {
			out.WriteRune(letter)
		}
	}
	out.WriteByte('"')
}
