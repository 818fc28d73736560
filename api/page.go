package api

// Page is one page of a list. NextPageToken is empty on the last one.
type Page[T any] struct {
	Items         []T    `json:"items"`
	NextPageToken string `json:"next_page_token,omitempty" doc:"Pass it as page_token to get the next page; absent on the last one"`
}

// List holds a list that is always whole.
type List[T any] struct {
	Items []T `json:"items"`
}

// PageOptions choose a page.
type PageOptions struct {
	Limit     int    // 1 to 200; 0: the server's choice
	PageToken string // of the page before
}
