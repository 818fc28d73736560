package api

import (
	"fmt"
	"strings"
)

// Problem is an error answer (RFC 9457). Client methods return it as *Problem.
type Problem struct {
	Type      string         `json:"type" doc:"Where this kind of problem is explained"`
	Title     string         `json:"title" doc:"The kind of problem, in a few words"`
	Status    int            `json:"status" doc:"The HTTP status"`
	Detail    string         `json:"detail" doc:"What was asked and why it can't be done"`
	Code      string         `json:"code" doc:"Stable and specific, for programs: name_taken, quota_exceeded"`
	Hint      string         `json:"hint,omitempty" doc:"How to get on"`
	Errors    []ProblemField `json:"errors,omitempty" doc:"All that is wrong with the request, at once"`
	RequestID string         `json:"request_id,omitempty" doc:"Quote it when you report a problem"`
	Resource  string         `json:"resource,omitempty" doc:"The quota that is exceeded"`
	Limit     *int64         `json:"limit,omitempty"`
	Used      *int64         `json:"used,omitempty"`
	Asked     *int64         `json:"asked,omitempty"`
	Reasons   []Reason       `json:"reasons,omitempty" doc:"Why nothing fits, with counts"`
	Figures   map[string]any `json:"figures,omitempty" doc:"Other figures that belong to this code"`
}

// ProblemField is one thing that is wrong with a request.
type ProblemField struct {
	Location string `json:"location" doc:"Where, as a path into the request: body.name, query.limit"`
	Message  string `json:"message" doc:"What is wrong and what is allowed"`
	Value    any    `json:"value,omitempty" doc:"What was sent"`
}

// Reason is one cause why an instance waits, with how many places it rules out.
type Reason struct {
	Reason  string `json:"reason" doc:"For programs: no_free_slots, node_drained"`
	Count   int    `json:"count"`
	Message string `json:"message,omitempty" doc:"For a person"`
}

// Error says what failed, every field, the way out and the request id.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Detail)
	if p.Detail == "" {
		fmt.Fprintf(&b, "%s (%d)", p.Title, p.Status)
	}
	for _, f := range p.Errors {
		fmt.Fprintf(&b, "; %s: %s", f.Location, f.Message)
	}
	if p.Hint != "" {
		fmt.Fprintf(&b, " (%s)", p.Hint)
	}
	if p.RequestID != "" {
		fmt.Fprintf(&b, " [request %s]", p.RequestID)
	}
	return b.String()
}

// Is lets errors.Is compare by code: errors.Is(err, &api.Problem{Code: "not_found"}).
func (p *Problem) Is(target error) bool {
	t, ok := target.(*Problem)
	return ok && t.Code == p.Code
}
