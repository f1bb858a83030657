package tradethesis

import (
	"encoding/json"
	"time"
)

// Event is something that happened. The same event has the same id on every transport.
type Event struct {
	// Object is "event".
	Object string `json:"object"`
	// ID is stable. Use it to recognise an event that comes twice.
	ID string `json:"id"`
	// Type says what happened.
	Type EventType `json:"type"`
	// CreatedAt orders events.
	CreatedAt time.Time `json:"created_at"`
	// Livemode is true for live data, and false for test data.
	Livemode bool `json:"livemode"`
	// Source says where the event comes from. A thin event has none.
	Source EventSource `json:"source,omitempty"`
	// Test is true for a test event, which never describes real activity.
	Test bool `json:"test,omitempty"`
	// Data is a pointer to the data of the event's type, such as [*ThesisCreatedData]. It is nil in a thin event, and
	// [UnknownEventData] if this package does not know the type.
	Data EventData `json:"data,omitempty"`
}

// EventData is the data of one type of events.
type EventData interface{ isEventData() }

// UnknownEventData is the JSON of an event type that this package does not know.
type UnknownEventData json.RawMessage

func (UnknownEventData) isEventData() {}

// MarshalJSON returns the JSON as it came.
func (d UnknownEventData) MarshalJSON() ([]byte, error) { return json.RawMessage(d).MarshalJSON() }

// UnmarshalJSON reads an event with the data of its type.
func (e *Event) UnmarshalJSON(content []byte) error {
	type plain Event
	read := struct {
		*plain
		Data json.RawMessage `json:"data"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(content, &read); err != nil {
		return err
	}
	e.Data = nil
	if len(read.Data) == 0 {
		return nil
	}
	data := newEventData(e.Type)
	if data == nil {
		e.Data = UnknownEventData(read.Data)
		return nil
	}
	if err := json.Unmarshal(read.Data, data); err != nil {
		return err
	}
	e.Data = data
	return nil
}
