package postgres

import (
	"context"
	"encoding/json"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Audit is one thing that somebody did.
type Audit struct {
	Actor    cloud.Actor
	Org      cloud.OrgID // zero: the platform
	Address  string
	Action   string
	Resource string // printed id
	Detail   map[string]any
}

const auditSQL = `
	INSERT INTO audit (org_id, user_id, token_id, session_id, address, action, resource, request_id, detail)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

func (a Audit) args() []any {
	detail := []byte("{}")
	if len(a.Detail) > 0 {
		detail, _ = json.Marshal(a.Detail) // plain values
	}
	return []any{a.Org, a.Actor.UserID, a.Actor.TokenID, a.Actor.SessionID, a.Address, a.Action, a.Resource, a.Actor.RequestID, json.RawMessage(detail)}
}

// AuditAdd writes an audit row.
func AuditAdd(ctx context.Context, q Querier, a Audit) error {
	_, err := q.Exec(ctx, auditSQL, a.args()...)
	return wrap("write audit", err)
}
