package tradethesis

import (
	"context"
	"iter"
	"net/url"
	"strconv"
)

// Page is a part of a list.
type Page[T any] struct {
	// Data has the rows of this page. There may be fewer than the limit, even none, before the last page.
	Data []T `json:"data"`
	// NextCursor is the cursor of the next page. It is nil on the last page.
	NextCursor *string `json:"next_cursor"`
	// HasMore is true if there is another page.
	HasMore bool `json:"has_more"`
}

// all reads a list page by page. It ends with the first error.
func all[T any](ctx context.Context, c *Client, call call, options []CallOption) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := url.Values{}
		for name, values := range call.query {
			query[name] = values
		}
		if !query.Has("limit") {
			query.Set("limit", strconv.Itoa(maxPageSize))
		}
		call := call
		call.query = query
		for {
			page, err := do[Page[T]](ctx, c, call, options)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, row := range page.Data {
				if !yield(row, nil) {
					return
				}
			}
			if !page.HasMore || page.NextCursor == nil {
				return
			}
			query.Set("cursor", *page.NextCursor)
		}
	}
}
