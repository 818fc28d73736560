package postgres

import (
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Scope is whom an API transaction is for. Row-level security shows the rows of
// Org alone; Operator adds the fleet and a look across tenants. The zero scope
// sees no tenant's rows: it is for sign-in, through the auth_ functions.
type Scope struct {
	Org      cloud.OrgID
	Operator bool
}

// ScopeOf is the scope of an actor's own request.
func ScopeOf(a cloud.Actor) Scope { return Scope{Org: a.OrgID, Operator: a.Operator} }

// begin is the statements that open a transaction for the scope. They travel as
// one message, so that saying whom it is for costs no round trip; a UUID and a
// word can't carry anything else into them.
func (s Scope) begin() string {
	var b strings.Builder
	b.WriteString("BEGIN")
	if !s.Org.IsZero() {
		b.WriteString("; SET LOCAL tenon.org = '" + s.Org.UUID().String() + "'")
	}
	if s.Operator {
		b.WriteString("; SET LOCAL tenon.operator = 'on'")
	}
	return b.String()
}

func nodeBegin(n cloud.NodeID) string {
	return "BEGIN; SET LOCAL tenon.node = '" + n.UUID().String() + "'"
}
