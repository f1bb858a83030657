package tradethesis

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// timeFormat is that of the service: UTC with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

// Nullable is a value or null. A nil pointer to it leaves a field as it is.
type Nullable[T any] struct{ value *T }

// Value sets a field to a value.
func Value[T any](value T) *Nullable[T] { return &Nullable[T]{&value} }

// Null clears a field.
func Null[T any]() *Nullable[T] { return &Nullable[T]{} }

// MarshalJSON writes the value or null.
func (n Nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.value) }

// These add a parameter to a query, unless its value is zero.

func addText[T ~string](values url.Values, name string, text T) {
	if text != "" {
		values.Set(name, string(text))
	}
}

func addNumber(values url.Values, name string, number int) {
	if number != 0 {
		values.Set(name, strconv.Itoa(number))
	}
}

func addTime(values url.Values, name string, at time.Time) {
	if !at.IsZero() {
		values.Set(name, at.UTC().Format(timeFormat))
	}
}

func addJoined[T ~string](values url.Values, name string, texts []T) {
	joined := make([]string, len(texts))
	for place, text := range texts {
		joined[place] = string(text)
	}
	addText(values, name, strings.Join(joined, ","))
}

func addEach[T ~string](values url.Values, name string, texts []T) {
	for _, text := range texts {
		values.Add(name, string(text))
	}
}

// newCall makes a call of a path whose parts in braces are replaced by values.
func newCall(method, path string, values ...string) call {
	made := call{method: method}
	var out strings.Builder
	for _, value := range values {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		out.WriteString(before)
		out.WriteString(value)
		path = after
		if strings.Trim(value, ".") == "" {
			made.err = fmt.Errorf("trade thesis: %q names nothing", value)
		}
	}
	out.WriteString(path)
	made.path = out.String()
	return made
}

// escapeParts escapes a value whose slashes stay.
func escapeParts(value string) string {
	parts := strings.Split(value, "/")
	for place, part := range parts {
		parts[place] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}
