package tradethesis

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// maxInteger is the largest whole number that every reader of JSON keeps.
const maxInteger = 1<<53 - 1

// The command has the same limits. A receipt has a few KiB, and few levels.
const (
	maxBytes = 1 << 20
	maxDepth = 127
)

// rawValue is the name of a field whose text is read as JSON by a parser of Rust, and by no other one.
const rawValue = "$serde_json::private::RawValue"

// fieldReader reads the fields of an object and keeps the names of those that are missing or of another type.
type fieldReader struct {
	fields map[string]any
	wrong  []string
}

// fieldsOf returns the fields of an object, and none of another value.
func fieldsOf(value any) map[string]any {
	fields, _ := value.(map[string]any)
	return fields
}

// fieldText returns the text in a field, and an empty one if there is none.
func fieldText(fields map[string]any, name string) string {
	text, _ := fields[name].(string)
	return text
}

func (r *fieldReader) check(name string, isRight bool) {
	if !isRight {
		r.wrong = append(r.wrong, name)
	}
}

func (r *fieldReader) value(name string) any {
	value, isThere := r.fields[name]
	r.check(name, isThere)
	return value
}

func (r *fieldReader) text(name string) string {
	text, isText := r.fields[name].(string)
	r.check(name, isText)
	return text
}

func (r *fieldReader) texts(name string) []string {
	values, isList := r.fields[name].([]any)
	r.check(name, isList)
	var texts []string
	for _, value := range values {
		text, isText := value.(string)
		r.check(name, isText)
		texts = append(texts, text)
	}
	return texts
}

func (r *fieldReader) boolean(name string) bool {
	value, isBoolean := r.fields[name].(bool)
	r.check(name, isBoolean)
	return value
}

func (r *fieldReader) number(name string) uint64 {
	number, isNumber := wholeNumber(r.fields[name])
	// Others cannot read a larger one exactly.
	isNumber = isNumber && number <= maxInteger
	r.check(name, isNumber)
	return number
}

// ambiguity returns why readers understand a JSON value differently, or an empty text if they do not. encoding/json
// keeps the last of two fields of one name.
func ambiguity(decoder *json.Decoder) string {
	decoder.UseNumber()
	// The caller has read the JSON before, so no token is wrong.
	token, _ := decoder.Token()
	bracket, isBracket := token.(json.Delim)
	if !isBracket {
		return ""
	}
	names := map[any]bool{}
	for decoder.More() {
		if bracket == '{' {
			name, _ := decoder.Token()
			if names[name] {
				return fmt.Sprintf("an object has two fields %q", name)
			}
			if name == rawValue {
				return fmt.Sprintf("an object has the field %q", name)
			}
			names[name] = true
		}
		if problem := ambiguity(decoder); problem != "" {
			return problem
		}
	}
	_, _ = decoder.Token() // The end of the list or the object.
	return ""
}

// checkValue refuses what other readers of JSON refuse: more levels than maxDepth, and numbers beyond the range of a
// float64.
func checkValue(value any, depth int) error {
	var inner []any
	switch value := value.(type) {
	case json.Number:
		_, err := value.Float64()
		return err
	case []any:
		inner = value
	case map[string]any:
		inner = slices.Collect(maps.Values(value))
	default:
		return nil
	}
	if depth == maxDepth {
		return fmt.Errorf("it has more than %d levels", maxDepth)
	}
	for _, one := range inner {
		if err := checkValue(one, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// escape finds the escapes in JSON. A whole surrogate pair is one match, and half of a pair is in the group.
var escape = regexp.MustCompile(`\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F])|.)`)

// hasLoneSurrogate reports whether a text in JSON has half of a surrogate pair. encoding/json replaces it with U+FFFD,
// so it would take such a text for another one. The content must be JSON, which has backslashes in texts alone.
func hasLoneSurrogate(content []byte) bool {
	return slices.ContainsFunc(escape.FindAllSubmatchIndex(content, -1), func(match []int) bool { return match[2] >= 0 })
}

// wholeNumber reads a number that is written as a whole one.
func wholeNumber(value any) (uint64, bool) {
	number, isNumber := value.(json.Number)
	if !isNumber {
		return 0, false
	}
	whole, err := strconv.ParseUint(number.String(), 10, 64)
	return whole, err == nil
}

// toCanonical writes a value as RFC 8785 says. No value of a receipt has a number that is not whole, so it refuses them.
func toCanonical(value any) ([]byte, error) {
	var out strings.Builder
	if err := writeCanonical(value, &out); err != nil {
		return nil, err
	}
	return []byte(out.String()), nil
}

func writeCanonical(value any, out *strings.Builder) error {
	switch value := value.(type) {
	case nil:
		out.WriteString("null")
	case bool:
		out.WriteString(strconv.FormatBool(value))
	case string:
		writeCanonicalText(value, out)
	case json.Number:
		number, err := strconv.ParseInt(value.String(), 10, 64)
		if err != nil || number > maxInteger || number < -maxInteger || strconv.FormatInt(number, 10) != value.String() {
			return errors.New("has a number that is not whole, or is beyond 2^53 - 1")
		}
		out.WriteString(value.String())
	case []any:
		out.WriteByte('[')
		for place, one := range value {
			if place > 0 {
				out.WriteByte(',')
			}
			if err := writeCanonical(one, out); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case map[string]any:
		return writeCanonicalObject(value, out)
	default:
		return fmt.Errorf("has a %T", value)
	}
	return nil
}

func writeCanonicalObject(fields map[string]any, out *strings.Builder) error {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	// Names are sorted by their UTF-16 units, which differs from the order of their bytes beyond U+FFFF.
	slices.SortFunc(names, func(one, other string) int {
		return slices.Compare(utf16.Encode([]rune(one)), utf16.Encode([]rune(other)))
	})
	out.WriteByte('{')
	for place, name := range names {
		if place > 0 {
			out.WriteByte(',')
		}
		writeCanonicalText(name, out)
		out.WriteByte(':')
		if err := writeCanonical(fields[name], out); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

// writeCanonicalText escapes only what must be escaped, which encoding/json cannot do.
func writeCanonicalText(text string, out *strings.Builder) {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	out.WriteByte('"')
	for _, letter := range text {
		if escaped, isShort := short[letter]; isShort {
			out.WriteString(escaped)
		} else if letter < ' ' {
			fmt.Fprintf(out, `\u%04x`, letter)
		} else {
			out.WriteRune(letter)
		}
	}
	out.WriteByte('"')
}
