package tradethesis

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxFrameLine is far above the longest line that the service writes.
const maxFrameLine = 4 << 20

// frame is one message of Server-Sent Events.
type frame struct {
	id, event, data string
	retry           time.Duration
}

// frames reads Server-Sent Events.
type frames struct{ lines *bufio.Scanner }

func newFrames(body io.Reader) *frames {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxFrameLine)
	return &frames{lines}
}

// next returns the next whole frame. What comes before the end of the body without an empty line is no frame.
func (f *frames) next() (frame, error) {
	var read frame
	var data []string
	isEmpty := true
	for f.lines.Scan() {
		line := f.lines.Text()
		if line == "" {
			if isEmpty {
				continue
			}
			read.data = strings.Join(data, "\n")
			return read, nil
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			read.id = value
		case "event":
			read.event = value
		case "data":
			data = append(data, value)
		case "retry":
			milliseconds, err := strconv.ParseUint(value, 10, 31)
			if err != nil {
				continue
			}
			read.retry = time.Duration(milliseconds) * time.Millisecond
		default:
			// A comment, or a field of a later version.
			continue
		}
		isEmpty = false
	}
	if err := f.lines.Err(); err != nil {
		return frame{}, err
	}
	return frame{}, io.ErrUnexpectedEOF
}
