package postgres

import (
	"strings"

	"github.com/google/uuid"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Ref is how a person names a resource: by its printed id or by its name. Names
// have no "_" and printed ids always do, so that one text is never both.
type Ref struct {
	ID   *uuid.UUID
	Name *string
}

// RefOf reads a path segment. What is neither an id nor a possible name finds
// nothing. The id says what kind of resource is meant.
func RefOf[R cloud.Resource](_ cloud.ID[R], s string) Ref {
	if strings.Contains(s, "_") || len(s) == 36 {
		if id, err := cloud.ParseID[R](s); err == nil {
			u := id.UUID()
			return Ref{ID: &u}
		}
	}
	return Ref{Name: &s}
}

// RefTo names a resource by its id.
func RefTo[R cloud.Resource](id cloud.ID[R]) Ref {
	u := id.UUID()
	return Ref{ID: &u}
}
